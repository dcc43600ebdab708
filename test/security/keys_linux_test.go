package security

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Line "queue keys": a key that is a value of a Secret reaches the hook and nothing else. Commands accept its hash.
func TestQueueKeysOfSecrets(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	value := base64.StdEncoding.EncodeToString([]byte(marker + "-in-a-key"))
	cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: %s}, data: {url: %q}}`, ns, value),
		"apply", "-f", "-")
	seen := filepath.Join(t.TempDir(), "seen")
	dir := testenv.Hooks(t, map[string]string{"keys.sh": `#!/bin/sh
if [ "$1" = --config ]; then cat <<'YAML'
configVersion: v1
settings: {retry: {limit: 2, minDelay: 1h, maxDelay: 1h}}
kubernetes:
- {name: secrets, kind: Secret, executeHookOnSynchronization: false, executeHookOnEvent: [Modified], namespace: {nameSelector: {matchNames: [` + ns + `]}}, queue: {name: keyed, key: .data.url}}
YAML
exit; fi
echo "$HOOK_QUEUE_KEY" >>` + seen + `
exit 1
`})
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig,
		Args: []string{"--kubernetes-events", "--namespace", ns}})
	op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	cluster.Kubectl(t, "-n", ns, "label", "secret", "db", "a=b")
	shown := map[string]string{}
	ask := func(line ...string) string {
		out, err := op.Command(line...).CombinedOutput()
		if err != nil && line[0] != "status" {
			t.Errorf("%q: %v: %s", line, err, out)
		}
		shown[strings.Join(line, " ")] += string(out)
		return string(out)
	}
	op.UntilLog("Hook failed. Will retry after delay.")
	list := ask("queue", "list")
	key := regexp.MustCompile(`redacted-[0-9a-f]{16}`).FindString(list)
	if key == "" {
		t.Fatalf("the list has no hash: %s", list)
	}
	for _, line := range [][]string{{"queue", "list", "-o", "json"}, {"why", "keys.sh"}, {"status"}, {"runs"},
		{"queue", "retry", "keyed", "--key", key}} {
		ask(line...)
	}
	parked := op.UntilLog("Hook failed. No attempt is left, its contexts are parked.")
	if parked.Fields["key"] != key {
		t.Errorf("the key in the log is %s", parked.Fields["key"])
	}
	if list := ask("parked", "list"); !strings.Contains(list, key) {
		t.Errorf("the parked task has another key: %s", list)
	}
	ask("parked", "list", "-o", "json")
	ask("parked", "retry", "--all")
	op.Until("a third run that has failed", func(records []testenv.Record) bool {
		runs := 0
		for _, r := range records {
			if r.Has("Hook failed. Will retry after delay.") || r.Has("Hook failed. No attempt is left, its contexts are parked.") {
				runs++
			}
		}
		return runs >= 3
	})
	shown["page"] = op.Page("/")
	op.Signal(os.Interrupt)
	op.Wait()
	shown["log"] = op.Log()
	shown["events"] = cluster.Kubectl(t, "-n", ns, "get", "events.events.k8s.io", "-o", "yaml")
	for name, text := range shown {
		if strings.Contains(text, marker) || strings.Contains(text, encodedMarker) {
			t.Errorf("%s has the key:\n%s", name, text)
		}
	}
	got, err := os.ReadFile(seen)
	if keys := strings.Fields(string(got)); err != nil || len(keys) != 3 ||
		strings.Join(keys, " ") != strings.TrimSpace(strings.Repeat(value+" ", len(keys))) {
		t.Errorf("HOOK_QUEUE_KEY was %q (%v)", keys, err)
	}
}
