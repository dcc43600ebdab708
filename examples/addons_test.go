package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// clusterWithFlux returns a control plane of its own, with the CRDs of Flux: the values follow all Nodes.
func clusterWithFlux(t testing.TB) *testenv.Cluster {
	t.Helper()
	cluster := testenv.Own(t)
	crds := filepath.Join(test.Root(), "bin", "tools", "flux-crds.yaml")
	if _, err := os.Stat(crds); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	cluster.Kubectl(t, "apply", "--server-side", "-f", crds)
	cluster.Kubectl(t, "wait", "--for=condition=established", "--timeout=180s", "-f", crds)
	return cluster
}

// choose writes the ConfigMap of the user.
func (e *example) choose(settings ...string) {
	e.t.Helper()
	e.input("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: addons}\ndata:\n  "+strings.Join(settings, "\n  ")+"\n", "apply", "-f", "-")
}

// zoned creates a Node in a zone.
func (e *example) zoned(name, zone string) {
	e.t.Helper()
	e.input(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: %s}}}", name, zone),
		"create", "-f", "-")
}

// readyMetric is the line of an addon, empty without one.
func (e *example) readyMetric(name string) string {
	e.t.Helper()
	for line := range strings.Lines(e.operator.Page("/metrics/hooks")) {
		if value, ok := strings.CutPrefix(line, fmt.Sprintf("addon_ready{hook=\"addons.py\",name=%q} ", name)); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestAddonsWithFlux runs the example with the real helm-controller: make test-addons.
func TestAddonsWithFlux(t *testing.T) {
	if os.Getenv("ADDONS") == "" {
		t.Skip("make test-addons runs this test, with helm-controller")
	}
	e := &example{t: t, cluster: clusterWithFlux(t), name: "addons"}
	e.namespace = e.cluster.Namespace(t)
	e.install()
	startFlux(t, e)
	e.env = append(e.env, "SHELL_OPERATOR_NAMESPACE="+e.namespace, "CHART_SOURCE=ExternalArtifact", "DRIFT_INTERVAL=5s", "WAIT_FOR_PODS=no")
	e.zoned("n0", "a")
	e.start()

	waitFor := func(condition, object string) {
		t.Helper()
		e.kubectl("wait", "--for="+condition, object, "--timeout=180s")
	}
	e.choose(`store: '{"enabled": true}'`, `web: '{"enabled": true}'`)
	waitFor("create", "deployment/store")
	waitFor("create", "deployment/web")
	waitFor("condition=Ready", "helmrelease/web")

	// A node appears, the Deployment changes: ten times.
	var times []time.Duration
	for i := 1; i <= 10; i++ {
		name, replicas := fmt.Sprintf("n%d", i), min(i+1, 5)
		if i > 4 { // no more than five replicas, so nodes go and come
			e.kubectl("delete", "node", "n1", "n2", "n3", "n4", "--ignore-not-found")
			waitFor("jsonpath={.spec.replicas}=1", "deployment/web")
			name, replicas = "n1", 2
		}
		begin := time.Now()
		e.zoned(name, "b")
		waitFor(fmt.Sprintf("jsonpath={.spec.replicas}=%d", replicas), "deployment/web")
		times = append(times, time.Since(begin).Round(10*time.Millisecond))
	}
	slices.Sort(times)
	t.Logf("a node appears, its addon's Deployment has changed after %v, median %v", times, times[5])
	if limit := 3 * time.Second; times[5] > limit && test.Long() {
		t.Errorf("the median is %v, the limit %v", times[5], limit)
	}

	e.kubectl("delete", "deployment", "web")
	waitFor("create", "deployment/web")

	// One that fails: condition, metric, Event; the other one is as it was.
	e.choose(`store: '{"enabled": true}'`, `web: '{"enabled": true, "values": {"replicas": 0}}'`)
	waitFor("condition=Ready=False", "helmrelease/web")
	e.until("the metric of the addon that fails", func() bool { return e.readyMetric("web") == "0" && e.readyMetric("store") == "1" })
	e.until("the Event about it", func() bool {
		return strings.Contains(e.kubectl("get", "events.events.k8s.io", "-o",
			`jsonpath={range .items[?(@.reason=="AddonFailed")]}{.regarding.name}: {.note}{end}`), "replicas must be at least 1")
	})
	waitFor("condition=Ready", "helmrelease/store")
	// Not the values from before the failure: helm-controller v1.4 leaves the condition of a release as it was if there is nothing to upgrade.
	e.choose(`store: '{"enabled": true}'`, `web: '{"enabled": true, "values": {"replicas": 4}}'`)
	waitFor("condition=Ready", "helmrelease/web")
	e.until("the metric of the addon that works again", func() bool { return e.readyMetric("web") == "1" })

	e.choose(`store: '{"enabled": true}'`, `web: '{"enabled": false}'`)
	waitFor("delete", "deployment/web")
	waitFor("condition=Ready", "helmrelease/store")
	e.choose(`store: '{"enabled": false}'`)
	waitFor("delete", "deployment/store")
}

// startFlux runs helm-controller and serves the charts, as the README does.
func startFlux(t *testing.T, e *example) {
	t.Helper()
	cmd := exec.Command("python3", "addons/flux.py", "--port", "0", "--namespace", e.namespace)
	cmd.Env = append(os.Environ(), "PATH="+test.Tools(t)+":"+os.Getenv("PATH"), "KUBECONFIG="+e.cluster.Kubeconfig)
	log, err := os.Create(filepath.Join(t.TempDir(), "flux.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", text)
		}
	})
}
