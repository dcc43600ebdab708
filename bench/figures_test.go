// Package bench measures what users feel, on a real control plane: `make bench` prints the figures. It measures whole
// processes and takes minutes; benchmarks of single parts stand beside the parts.
package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/testenv"
)

// require skips measurements in ordinary test runs.
func require(t *testing.T) {
	t.Helper()
	if os.Getenv("BENCH") == "" {
		t.Skip("measures for minutes: run 'make bench'")
	}
}

// report prints a figure and the value that it should not exceed.
func report(t *testing.T, what string, got, limit float64, unit string) {
	t.Helper()
	verdict := "ok"
	if got > limit {
		verdict = "TOO MUCH"
		t.Fail()
	}
	fmt.Printf("%-62s %9.2f %-4s (at most %.2f) %s\n", what, got, unit, limit, verdict)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// hooks writes hook files, which are named by their place.
func hooks(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("hook-%02d.sh", i)), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const hookText = `#!/bin/sh
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes:
- kind: ConfigMap
  namespace: {nameSelector: {matchNames: [%s]}}
%s
END
  exit
fi
echo "run $(wc -c < $BINDING_CONTEXT_PATH)"
`

// TestLatency measures one event on an idle operator, from the API server's answer to the first line of a sh hook, and
// the CPU time of an operator that has nothing to do.
func TestLatency(t *testing.T) {
	require(t)
	cluster := testenv.Own(t)
	client := clientOf(t, cluster)
	namespace := cluster.Namespace(t)
	dir := hooks(t, fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [%s]}}}]}'; exit; fi\necho ran\n", namespace))
	op := start(t, cluster, dir)
	op.UntilLog("ran")

	var delays []time.Duration
	for i := range 100 {
		name := fmt.Sprintf("latency-%d", i)
		seen := runsOf(op)
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap(name, 100), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		answered := time.Now()
		op.Until("the run", func([]testenv.Record) bool { return runsOf(op) > seen })
		records := op.Records()
		for _, r := range slices.Backward(records) {
			if r.Fields["msg"] == "ran" {
				delays = append(delays, r.At.Sub(answered))
				break
			}
		}
		// The next event finds the operator idle again.
		op.Until("the end of the run", func(rs []testenv.Record) bool { return rs[len(rs)-1].Has("Hook executed successfully") })
	}
	slices.Sort(delays)
	report(t, "event to first line of a sh hook, median of 100", milliseconds(delays[len(delays)/2]), 10, "ms")
	fmt.Printf("  (90th percentile %.2f ms, worst %.2f ms; the original needs 230 ms)\n", milliseconds(delays[90]), milliseconds(delays[99]))

	before := cpu(t, op.Pid())
	time.Sleep(time.Minute)
	report(t, "CPU time of an idle operator in a minute", (cpu(t, op.Pid()) - before).Seconds(), 0.05, "s")
}

func runsOf(op *testenv.Operator) (n int) {
	for _, r := range op.Records() {
		if r.Fields["msg"] == "ran" {
			n++
		}
	}
	return n
}

// TestManyObjects measures 10,000 ConfigMaps of 2 KiB.
func TestManyObjects(t *testing.T) {
	require(t)
	cluster := testenv.Own(t)
	namespace := cluster.Namespace(t)
	fill(t, cluster, namespace, 10_000)

	t.Run("full objects", func(t *testing.T) {
		op := start(t, cluster, hooks(t, fmt.Sprintf(hookText, namespace, "")))
		first := op.UntilLog("run ")
		report(t, "10,000 ConfigMaps, full objects: first run after start", first.At.Sub(op.Started).Seconds(), 1.5, "s")
		op.UntilLog("Unlock kubernetes.Event tasks")
		time.Sleep(10 * time.Second)
		report(t, "10,000 ConfigMaps, full objects: resident 10 s later", resident(t, op.Pid()), 110, "MiB")
		fmt.Printf("  (%s; peak %.0f MiB; the original: 398 MiB, 3.2 s)\n", first.Fields["msg"], peak(t, op.Pid()))
	})
	t.Run("filters", func(t *testing.T) {
		var texts []string
		for _, filter := range filters {
			texts = append(texts, fmt.Sprintf(hookText, namespace, "  keepFullObjectsInMemory: false\n  jqFilter: '"+filter+"'"))
		}
		before := watches(t, cluster)
		op := start(t, cluster, hooks(t, texts...))
		op.Until("ten Synchronizations", func(rs []testenv.Record) bool {
			n := 0
			for _, r := range rs {
				if r.Has("Unlock kubernetes.Event tasks") {
					n++
				}
			}
			return n == 10
		})
		report(t, "10 jq hooks over 10,000: all Synchronizations after start", time.Since(op.Started).Seconds(), 3, "s")
		time.Sleep(10 * time.Second)
		report(t, "10 jq hooks over 10,000: resident 10 s later", resident(t, op.Pid()), 90, "MiB")
		report(t, "10 jq hooks over 10,000: watches", watches(t, cluster)-before, 1, "")
		fmt.Printf("  (peak %.0f MiB; the original: 365 MiB, 13 s)\n", peak(t, op.Pid()))
	})
}

// TestFlood measures an operator whose hook is busy while 3,000 changes of 64 KiB arrive: none may be lost, but not all
// of them can be in memory.
func TestFlood(t *testing.T) {
	require(t)
	cluster := testenv.Own(t)
	client := clientOf(t, cluster)
	namespace := cluster.Namespace(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(hookText, namespace, "  labelSelector: {matchLabels: {flood: \"\"}}")
	text = strings.Replace(text, "echo \"run", "jq length $BINDING_CONTEXT_PATH\nif grep -q '\"Added\"' $BINDING_CONTEXT_PATH; then echo busy; cat "+gate+"; fi\necho \"run", 1)
	op := start(t, cluster, hooks(t, text))
	op.UntilLog("Unlock kubernetes.Event tasks")
	flood := configMap("flood", 64<<10)
	flood.Labels = map[string]string{"flood": ""}
	const changes = 3000
	for i := range changes + 1 {
		var err error
		if flood.Data["v1"] = fmt.Sprint(i); i == 0 {
			_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(), flood, metav1.CreateOptions{})
		} else {
			_, err = client.CoreV1().ConfigMaps(namespace).Update(t.Context(), flood, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	op.Until("all changes in the queue", func(rs []testenv.Record) bool {
		n := 0
		for _, r := range rs {
			if r.Has("queue task") {
				n++
			}
		}
		return n == changes+1
	})
	report(t, "3,000 waiting changes of 64 KiB (190 MiB): resident", resident(t, op.Pid()), 110, "MiB")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	op.UntilLog(fmt.Sprint(changes))
	fmt.Println("  (all 3,000 came in one run)")
}

const patchHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
i=0
while [ $i -lt %[2]d ]; do
  echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "'map-%[2]d-$i'", "namespace": "%[1]s"}, "data": {"round": "'$$'"}}}'
  i=$((i+1))
done > $KUBERNETES_PATCH_PATH
`

// TestPatches measures how long it takes to carry out what a hook hands back, from the start of the operator.
func TestPatches(t *testing.T) {
	require(t)
	cluster := testenv.Own(t)
	namespace := cluster.Namespace(t)
	for _, test := range []struct {
		what  string
		count int
		limit float64
	}{
		{"200 CreateOrUpdate, new objects: all done after start", 200, 1.5},
		{"200 CreateOrUpdate, objects that exist: all done after start", 200, 1.5},
		{"5,000 CreateOrUpdate, new objects: all done after start", 5000, 20},
	} {
		op := start(t, cluster, hooks(t, fmt.Sprintf(patchHook, namespace, test.count)))
		done := op.UntilLog("Hook executed successfully")
		report(t, test.what, done.At.Sub(op.Started).Seconds(), test.limit, "s")
		op.Signal(syscall.SIGTERM)
		op.Wait()
	}
	fmt.Println("  (the original: 38 s for 200)")
}

// TestAdmission measures a review with a minimal sh hook at 50 requests a second, from the request to the answer, beside
// starting and waiting for the same script without an operator.
func TestAdmission(t *testing.T) {
	require(t)
	cluster := testenv.Own(t)
	dir := hooks(t, `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetesValidating: [{name: bench.example.com, namespace: {labelSelector: {matchLabels: {bench: none}}}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}'
  exit
fi
echo '{"allowed": true}' > $VALIDATING_RESPONSE_PATH
`)
	op := start(t, cluster, dir)
	op.UntilLog("Webhooks are registered")
	server := op.UntilLog("webhook server started")
	path := strings.TrimSpace(cluster.Kubectl(t, "get", "validatingwebhookconfiguration", "-o", "jsonpath={.items[0].webhooks[0].clientConfig.url}"))
	review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "name": "one", "namespace": "default", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}}}`
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if !strings.HasPrefix(path, server.Fields["url"]) {
		t.Fatalf("the webhook is registered as %s", path)
	}

	const requests, rate = 500, 50
	delays := make([]time.Duration, requests)
	bare := make([]time.Duration, requests)
	var asking sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for i := range requests {
		<-tick.C
		asking.Go(func() {
			started := time.Now()
			res, err := client.Post(path, "application/json", strings.NewReader(review))
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			delays[i] = time.Since(started)
			if !strings.Contains(string(body), `"allowed":true`) {
				t.Errorf("answer %s", body)
			}
		})
	}
	asking.Wait()
	answer := filepath.Join(t.TempDir(), "answer")
	for i := range requests {
		<-tick.C
		cmd := exec.Command(filepath.Join(dir, "hook-00.sh"))
		cmd.Env = append(os.Environ(), "VALIDATING_RESPONSE_PATH="+answer)
		started := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		bare[i] = time.Since(started)
	}
	slices.Sort(delays)
	slices.Sort(bare)
	report(t, "admission with a minimal sh hook at 50/s, median", milliseconds(delays[requests/2]), 8, "ms")
	report(t, "the same, 99th percentile", milliseconds(delays[requests*99/100]), 40, "ms")
	fmt.Printf("  (fork and exec of the same script alone: median %.2f ms, 99th percentile %.2f ms)\n", milliseconds(bare[requests/2]), milliseconds(bare[requests*99/100]))
}

// filters are what hooks that drop the object typically want to know of it.
var filters = []string{
	".data.v1",
	"{name: .metadata.name, v: .data.v2}",
	".data | keys",
	".metadata.labels",
	".data.v0 | length",
	"[.data[] | length]",
	".metadata.uid",
	".data | to_entries | map(select(.value | length < 100))",
	"{ns: .metadata.namespace, kind, created: .metadata.creationTimestamp}",
	"del(.data, .metadata.managedFields)",
}

// start starts the operator as users build it, without the race detector.
func start(t *testing.T, cluster *testenv.Cluster, dir string) *testenv.Operator {
	t.Helper()
	return testenv.Start(t, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: cluster.Kubeconfig, Binary: filepath.Join(testenv.Root(), "bin", "shell-operator"),
	})
}

func clientOf(t *testing.T, cluster *testenv.Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func configMap(name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"v0": strings.Repeat("x", size), "v1": name, "v2": "constant"},
	}
}

// fill creates n ConfigMaps whose JSON is about 2 KiB.
func fill(t *testing.T, cluster *testenv.Cluster, namespace string, n int) {
	t.Helper()
	client := clientOf(t, cluster)
	names := make(chan string)
	var creating sync.WaitGroup
	for range 32 {
		creating.Go(func() {
			for name := range names {
				if _, err := client.CoreV1().ConfigMaps(namespace).Create(context.Background(), configMap(name, 1640), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		names <- fmt.Sprintf("map-%05d", i)
	}
	close(names)
	creating.Wait()
	one, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "map-00000", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(one)
	fmt.Printf("%d ConfigMaps of %d bytes of JSON\n", n, len(text))
}

// cpu is the time that a process has used, from /proc.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat := proc(t, pid, "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
}

func resident(t *testing.T, pid int) float64 { t.Helper(); return status(t, pid, "VmRSS") }
func peak(t *testing.T, pid int) float64     { t.Helper(); return status(t, pid, "VmHWM") }

// status reads a size in MiB from /proc.
func status(t *testing.T, pid int, key string) float64 {
	t.Helper()
	m := regexp.MustCompile(key + `:\s+(\d+) kB`).FindStringSubmatch(proc(t, pid, "status"))
	if m == nil {
		t.Fatalf("no %s in /proc", key)
	}
	kb, _ := strconv.ParseFloat(m[1], 64)
	return kb / 1024
}

func proc(t *testing.T, pid int, file string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc, which only Linux has")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// watches counts the watches on ConfigMaps that the API server serves.
func watches(t *testing.T, cluster *testenv.Cluster) float64 {
	t.Helper()
	sum := 0.0
	for line := range bytes.Lines([]byte(cluster.Kubectl(t, "get", "--raw", "/metrics"))) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "apiserver_longrunning_requests{") && strings.Contains(text, `resource="configmaps"`) && strings.Contains(text, `verb="WATCH"`) {
			n, _ := strconv.ParseFloat(text[strings.LastIndex(text, " ")+1:], 64)
			sum += n
		}
	}
	return sum
}
