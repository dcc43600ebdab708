// Package reach measures how much of the operator an event meets: functions that run for it and not while the operator is idle. Its bounds
// keep a capability that no hook asked for out of the way of an event.
package reach

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// bounds are upper ones, for functions, files and packages. They are lowered when the reach falls.
var bounds = []struct {
	event  string
	bounds [3]int
}{
	{"Added", [3]int{320, 79, 23}},
	{"MergePatch", [3]int{95, 35, 14}}, // beyond those of Added
	{"review", [3]int{251, 80, 22}},
}

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
  "kind": {"version": "v1", "kind": "ConfigMap"}, "resource": {"version": "v1", "resource": "configmaps"},
  "namespace": "default", "name": "reviewed", "object": {"apiVersion": "v1", "kind": "ConfigMap"}}}`

// TestReach runs the operator with counters on an API server in memory, with hooks without options. make reach prints what is met.
func TestReach(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("make reach builds a program with counters")
	}
	cluster, counters := testenv.Memory(t), t.TempDir()
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary: counting(t), Kubeconfig: cluster.Kubeconfig, Env: []string{"COUNTERS=" + counters, "GOCOVERDIR=" + t.TempDir()},
		HooksDir: testenv.Hooks(t, map[string]string{
			"added.sh":  testenv.Testdata(t, "hook.sh", "KIND", "ConfigMap"),
			"patch.sh":  testenv.Testdata(t, "hook.sh", "KIND", "Secret"),
			"review.sh": testenv.Testdata(t, "review.sh"),
		}),
	})
	op.UntilLog("Webhooks are registered")
	op.UntilCount(2, "Unlock kubernetes.Event tasks")
	url := strings.TrimSpace(cluster.Kubectl(t, "get", "validatingwebhookconfigurations", "-o",
		"jsonpath={.items[0].webhooks[0].clientConfig.url}"))
	causes := []func(name string){
		func(string) {}, // idle
		func(name string) { cluster.Kubectl(t, "create", "configmap", name) },
		func(name string) { cluster.Kubectl(t, "create", "secret", "generic", name) },
		func(string) { send(t, url) },
	}
	for i, cause := range causes { // the first ones find resources, make certificates and fill caches
		cause("target")
		op.UntilCount(i, "Hook executed successfully")
	}
	for i, cause := range causes {
		op.Signal(syscall.SIGUSR1)
		op.UntilCount(i+1, "counters: cleared")
		cause("added")
		op.UntilCount(len(causes)-1+i, "Hook executed successfully")
		op.Signal(syscall.SIGUSR2)
		op.UntilLog(fmt.Sprintf("counters: written %d", i))
	}
	met(t, counters, 1, 0)
	met(t, counters, 2, 0, 1)
	met(t, counters, 3, 0)
}

// send sends the review.
func send(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	answer, err := client.Post(url, "application/json", strings.NewReader(review))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the review has the status %s", answer.Status)
	}
}

// met compares the functions that ran for an event, and for none of those before, with its bounds.
func met(t *testing.T, counters string, event int, before ...int) {
	t.Helper()
	ran := filepath.Join(counters, fmt.Sprint(event))
	for _, other := range before {
		left := t.TempDir()
		covdata(t, "subtract", "-i="+ran+","+filepath.Join(counters, fmt.Sprint(other)), "-o="+left)
		ran = left
	}
	packages, files, functions := map[string]int{}, map[string]int{}, []string{}
	for row := range strings.Lines(covdata(t, "func", "-i="+ran)) {
		fields := strings.Fields(row) // path:line: function percent
		if len(fields) != 3 || fields[2] == "0.0%" || fields[0] == "total" {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "github.com/shell-operator/shell-operator/"), ":")
		packages[path.Dir(file)]++
		files[file]++
		functions = append(functions, file+" "+fields[1])
	}
	found, bound := [3]int{len(functions), len(files), len(packages)}, bounds[event-1]
	t.Logf("%s: %d functions in %d files of %d packages, of at most %d", bound.event, found[0], found[1], found[2], bound.bounds)
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		t.Logf("  %3d %s", packages[name], name)
	}
	if list := os.Getenv("DIR"); list != "" {
		if err := os.WriteFile(filepath.Join(list, bound.event), []byte(strings.Join(functions, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if found[0] > bound.bounds[0] || found[1] > bound.bounds[1] || found[2] > bound.bounds[2] {
		t.Errorf("%s meets more than before; make reach DIR=folder writes the names", bound.event)
	}
}

func covdata(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"tool", "covdata"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("covdata %v: %v: %s", args, err, out)
	}
	return string(out)
}

// counting builds the operator with counters, and with the file of testdata that writes them: in a package that has no counters itself.
func counting(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "shell-operator")
	text := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(test.Root(), "docs/counters.go"),
		filepath.Join(here, "testdata/counters.go"))
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./internal/...,./cmd/...", "-overlay", overlay,
		"-o", binary, "./cmd/shell-operator")
	build.Dir, build.Env = test.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the operator: %v\n%s", err, out)
	}
	return binary
}
