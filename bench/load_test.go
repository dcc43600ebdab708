package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// flood measures an operator whose hook is busy while many large changes arrive: none may be lost, but not all of them
// can be in memory.
func flood(b *bench) {
	const changes = 3000
	client := b.client()
	namespace := b.cluster.Namespace(b.T)
	gate := filepath.Join(b.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		b.Fatal(err)
	}
	counts := filepath.Join(b.TempDir(), "counts")
	op := b.start(
		b.hooks(hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, labelSelector: {matchLabels: {flood: large}}, "+
			"namespace: {nameSelector: {matchNames: [%s]}}}]}", namespace),
			"jq length $BINDING_CONTEXT_PATH >> "+counts+"\nif grep -q '\"round\": *\"3000\"' $BINDING_CONTEXT_PATH; then echo complete; "+
				"fi\nif grep -q '\"Added\"' $BINDING_CONTEXT_PATH; then echo busy; cat "+gate+"; fi")))
	op.untilCount("Unlock kubernetes.Event tasks", 1)
	flood := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flood", Labels: map[string]string{"flood": "large"}},
		Data: map[string]string{"payload": strings.Repeat("x", 64<<10)}}
	for i := range changes + 1 {
		var err error
		if flood.Data["round"] = fmt.Sprint(i); i == 0 {
			_, err = client.CoreV1().ConfigMaps(namespace).Create(b.Context(), flood, metav1.CreateOptions{})
		} else {
			_, err = client.CoreV1().ConfigMaps(namespace).Update(b.Context(), flood, metav1.UpdateOptions{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	op.untilCount("queue task", changes+1)
	b.add("resident while 190 MiB wait", "MiB", op.resident()).most(110)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	op.untilCount("complete", 1)
	b.add("peak", "MiB", op.peak())
	text, err := os.ReadFile(counts)
	if err != nil {
		b.Fatal(err)
	}
	received := 0
	for _, n := range strings.Fields(string(text)) {
		length, err := strconv.Atoi(n)
		if err != nil {
			b.Fatal(err)
		}
		received += length
	}
	if received != changes+2 { // and the Synchronization
		b.Errorf("the hook received %d contexts, not %d", received, changes+2)
	}
}

const patchCommands = `if ! grep -q '"Schedule\|onStartup"' $BINDING_CONTEXT_PATH; then echo nothing to do; exit; fi
i=0
while [ $i -lt %[2]d ]; do
  echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map-'$i'", "namespace": "%[1]s"}, "data": {"round": "'$$'"}}}'
  i=$((i+1))
done > $KUBERNETES_PATCH_PATH
echo written`

// patches measures from the end of a hook that has requested many changes until they are made, in turns with a bare
// loop of 16 workers that makes the same objects elsewhere.
func patches(b *bench) {
	for _, test := range []struct{ count, times int }{{200, 5}, {5000, 2}} {
		var took, bare []float64
		for range test.times {
			namespace, other := b.cluster.Namespace(b.T), b.cluster.Namespace(b.T)
			started := time.Now()
			b.each(16, test.count, func(client *kubernetes.Clientset, i int) error {
				_, err := client.CoreV1().ConfigMaps(other).Create(context.Background(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i)}, Data: map[string]string{"round": "1"},
				}, metav1.CreateOptions{})
				return err
			})
			bare = append(bare, time.Since(started).Seconds())
			op := b.start(b.hooks(hook("{configVersion: v1, onStartup: 1}", fmt.Sprintf(patchCommands, namespace, test.count))))
			written := op.untilCount("written", 1).At
			done := op.untilCount("Hook executed successfully", 1).At
			took = append(took, done.Sub(written).Seconds())
			op.stop()
		}
		b.add(fmt.Sprintf("%d CreateOrUpdate of new objects", test.count), "s", took...).against("bare loop, 16 workers", bare...).times(1.5, 0)
	}
}

// admission sends requests to a hook as the API server does, in turns with starting the same script without an operator.
func admission(b *bench) {
	dir := b.hooks(hook(`{configVersion: v1, kubernetesValidating: [{name: bench.example.com, namespace: {labelSelector: {matchLabels: `+
		`{bench: none}}}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}`,
		`echo '{"allowed": true}' > $VALIDATING_RESPONSE_PATH`))
	for rate, delays := range b.requests(b.start(dir), filepath.Join(dir, "hook-00.sh"), 1, 10, 50) {
		b.add(fmt.Sprintf("request → answer at %d/s", rate), "ms", delays.hook...).against("fork and exec alone", delays.bare...).times(1, 3)
	}
}

// delays are in milliseconds.
type delays struct{ hook, bare []float64 }

// requests sends requests to the hook of an operator, so many a second, in turns with starting a script.
func (b *bench) requests(op *operator, script string, rates ...int) iter.Seq2[int, delays] {
	b.Helper()
	op.untilCount("Webhooks are registered", 1)
	url := strings.TrimSpace(b.cluster.Kubectl(b.T, "get", "validatingwebhookconfiguration", "-o",
		"jsonpath={.items[0].webhooks[0].clientConfig.url}"))
	if server := op.untilCount("webhook server started", 1); !strings.HasPrefix(url, server.Fields["url"]) {
		b.Fatalf("the webhook is registered as %s", url)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}}
	answer := filepath.Join(b.TempDir(), "answer")
	return func(yield func(int, delays) bool) {
		for _, rate := range rates {
			const turns = 5
			n := max(3, min(80, rate*2))
			var d delays
			for range turns {
				d.hook = append(d.hook, b.atRate(rate, n, func() error { return ask(client, url) })...)
				d.bare = append(d.bare, b.atRate(rate, n, func() error {
					cmd := exec.Command(script)
					cmd.Env = append(os.Environ(), "VALIDATING_RESPONSE_PATH="+answer)
					return cmd.Run()
				})...)
			}
			if !yield(rate, d) {
				return
			}
		}
	}
}

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", ` +
	`"kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "resource": {"group": "", "version": "v1", "resource": "configmaps"}, ` +
	`"name": "one", "namespace": "default", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}}}`

func ask(client *http.Client, url string) error {
	res, err := client.Post(url, "application/json", strings.NewReader(review))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && !strings.Contains(string(body), `"allowed":true`) {
		err = fmt.Errorf("answer %s", body)
	}
	return err
}

// atRate does something n times, so many a second, and returns how many milliseconds each took.
func (b *bench) atRate(rate, n int, do func() error) []float64 {
	b.Helper()
	took := make([]float64, n)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var doing sync.WaitGroup
	for i := range n {
		<-tick.C
		doing.Go(func() {
			started := time.Now()
			if err := do(); err != nil {
				b.Error(err)
			}
			took[i] = milliseconds(time.Since(started))
		})
	}
	doing.Wait()
	return took
}

// largeOutputs measures the memory of an operator whose runs write 200 MB of operations: 20,000 patches of 10 kB, of objects that are
// missing.
func largeOutputs(b *bench) {
	const count = 20_000
	namespace := b.cluster.Namespace(b.T)
	file := filepath.Join(b.TempDir(), "operations")
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	w, value := bufio.NewWriter(f), strings.Repeat("x", 10_000)
	for i := range count {
		fmt.Fprintf(w, `{"operation": "MergePatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, "name": "map-%d", `+
			`"ignoreMissingObject": true, "mergePatch": {"data": {"key": %q}}}`+"\n", namespace, i, value)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct {
		runs int
		most float64
	}{{1, 200}, {10, 400}} {
		var hooks []string
		for i := range test.runs {
			hooks = append(hooks, hook(fmt.Sprintf(`{"configVersion": "v1", "settings": {"maxFileBytes": 268435456}, "kubernetes": [`+
				`{"apiVersion": "v1", "kind": "ConfigMap", "namespace": {"nameSelector": {"matchNames": [%q]}}, `+
				`"queue": "queue-%d", "waitForSynchronization": false}]}`, namespace, i), "cat "+file+` > "$KUBERNETES_PATCH_PATH"`))
		}
		op := b.start(b.hooks(hooks...), "--run-dir", b.TempDir())
		op.untilCount("Hook executed successfully", test.runs)
		b.add(fmt.Sprintf("peak memory, %d runs with 200 MB of operations", test.runs), "MiB", op.peak()).most(test.most)
		op.stop()
	}
}
