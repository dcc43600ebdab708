package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// malformed are the inputs of a kind that package wire refuses.
func malformed(t *testing.T, kind string) (inputs []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(test.Root(), "internal", "wire", "testdata", "malformed", kind+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.SplitSeq("\n"+string(text), "\n> ") {
		line, outcome, _ := strings.Cut(row, "\n")
		if line == "" || strings.HasPrefix(strings.TrimSpace(outcome), "accepted:") {
			continue
		}
		if quoted, err := strconv.Unquote(line); err == nil {
			line = quoted
		}
		inputs = append(inputs, line)
	}
	return inputs
}

// A running operator gets every known malformed input: operations and metrics by the runs of a hook, one after the
// other, then configurations by hooks that are added together. Each is rejected, with the place, and the operator
// continues.
func TestMalformedInputs(t *testing.T) {
	wanted(t, "malformed-inputs")
	together(t)
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	client := clientOf(t, cluster)
	inputs, hooks := t.TempDir(), t.TempDir()
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	places := []string{}
	for kind, place := range map[string]string{"patches": "document ", "metrics": "operation"} {
		for _, text := range malformed(t, kind) {
			must(os.WriteFile(filepath.Join(inputs, fmt.Sprint(len(places), ".", kind)), []byte(text), 0o600))
			places = append(places, place)
		}
	}
	must(os.WriteFile(filepath.Join(hooks, "hook.sh"), []byte(hookText(fmt.Sprintf(`
configVersion: v1
settings: {contextsPerRun: 1}
kubernetes:
- {kind: ConfigMap, allowFailure: true, executeHookOnSynchronization: false, executeHookOnEvent: [Added], labelSelector: {matchLabels: {odd: ""}}, namespace: {nameSelector: {matchNames: [%s]}}}`, namespace),
		fmt.Sprintf(`cd %s; n=$(cat next 2>/dev/null || echo 0); echo $((n+1)) >next
if [ -e $n.patches ]; then cat $n.patches >$KUBERNETES_PATCH_PATH; fi
if [ -e $n.metrics ]; then cat $n.metrics >$METRICS_PATH; fi
echo did $n`, inputs))), 0o755))
	op := startWatched(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Args: []string{"--watch-hooks"}})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	op.mayHold()
	create := func(i int) error {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Labels: map[string]string{"odd": ""}},
		}, metav1.CreateOptions{})
		return err
	}
	inParallel(t, len(places)+1, create) // the last run hands back nothing
	op.UntilLog("Hook executed successfully")
	var refused []testenv.Record
	for _, r := range op.Records() {
		if r.Has("Hook failed, but allowed to fail") {
			refused = append(refused, r)
		}
	}
	if len(refused) != len(places) {
		t.Fatalf("%d runs have failed, with %d malformed outputs", len(refused), len(places))
	}
	for i, r := range refused {
		if !strings.Contains(r.Fields["error"], places[i]) {
			t.Errorf("output %d: the error does not say where: %s", i, r.Fields["error"])
		}
	}

	// All in one directory, which comes as a whole.
	configs := malformed(t, "config")
	bad := filepath.Join(t.TempDir(), "bad")
	must(os.Mkdir(bad, 0o755))
	for i, text := range configs {
		path := filepath.Join(inputs, fmt.Sprint(i, ".config"))
		must(os.WriteFile(path, []byte(text), 0o600),
			os.WriteFile(filepath.Join(bad, fmt.Sprintf("%03d.sh", i)), []byte("#!/bin/sh\ncat "+path+"\n"), 0o755))
	}
	must(os.Rename(bad, filepath.Join(hooks, "bad")))
	reasons := op.UntilLog("Reload rejected, the previous hooks stay active").Fields["error"]
	for i, text := range configs {
		if name := fmt.Sprintf(`hook "bad/%03d.sh"`, i); !strings.Contains(reasons, name) {
			t.Errorf("%s is not refused: %.200q", name, text)
		}
	}
	must(create(len(places) + 1))
	op.UntilLog(fmt.Sprint("did ", len(places)+1))
	fmt.Printf("  %d outputs and %d configurations were refused\n", len(places), len(configs))
}
