package failover

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// puttingHook makes the set in the body of a request complete.
const puttingHook = `#!/bin/bash
if [ "$1" = --config ]; then echo '{configVersion: v1, http: [{name: put, method: POST, path: /sets}]}'; exit; fi
jq -r '.[0].request.body' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
`

// putting is two replicas that answer requests: one of them restores.
type putting struct {
	t         *testing.T
	cluster   *testenv.Cluster
	namespace string
	client    kubernetes.Interface
	restorer  *testenv.Operator
	other     *testenv.Operator
	probes    int
}

// newPutting starts the replicas, the second one after the first one has logged begins.
func newPutting(t *testing.T, begins string, args ...string) *putting {
	p := &putting{t: t, cluster: testenv.Shared(t)}
	p.namespace = p.cluster.Namespace(t)
	var err error
	if p.client, err = kubernetes.NewForConfig(p.cluster.Config(t)); err != nil {
		t.Fatal(err)
	}
	hooks := t.TempDir()
	testenv.Script(t, hooks, "put.sh", puttingHook)
	start := func(name string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: p.cluster.Kubeconfig, Env: []string{"POD_NAME=" + name},
			Args: append([]string{"--namespace", p.namespace, "--kubernetes-events=false"}, args...)})
	}
	p.restorer = start("a")
	p.restorer.UntilLog(begins)
	p.other = start("b")
	p.other.UntilLog("HTTP hooks are served")
	return p
}

// set is a Sync of ConfigMaps, each with the keys in its text. The value of each key is the last letter of the text.
func (p *putting) set(name string, objects map[string]string) string {
	var list []string
	for object, keys := range objects {
		data := []string{}
		for _, key := range strings.Split(keys, "") {
			data = append(data, fmt.Sprintf("%q: %q", key, keys[len(keys)-1:]))
		}
		list = append(list, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {%s}}`, object,
			p.namespace, strings.Join(data, ", ")))
	}
	return fmt.Sprintf("{operation: Sync, set: %s, allowEmpty: true, objects: [%s]}", name, strings.Join(list, ", "))
}

// put sends a set to a replica.
func (p *putting) put(to *testenv.Operator, document string) {
	p.t.Helper()
	url := "http://" + to.UntilLog("HTTP hooks are served").Fields["address"] + "/sets"
	res, err := http.Post(url, "text/plain", strings.NewReader(document))
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		p.t.Fatalf("the answer to %s has the status %d", document, res.StatusCode)
	}
}

// expect checks what the set has, immediately and when the restorer has received all changes so far.
func (p *putting) expect(when string, want map[string]string) {
	p.t.Helper()
	p.compare(when, want)
	p.probe()
	p.compare("some time after: "+when, want)
}

// probe returns after the restorer has received all changes so far, and acted on them: those of a kind come in order. A member of another
// set is deleted, and back.
func (p *putting) probe() {
	p.t.Helper()
	for range 2 {
		p.probes++
		name := fmt.Sprint("probe-", p.probes)
		p.put(p.restorer, p.set(name, map[string]string{name: "k"}))
		p.cluster.Kubectl(p.t, "-n", p.namespace, "delete", "configmap", name)
		p.cluster.Kubectl(p.t, "-n", p.namespace, "wait", "--for=create", "configmap/"+name, "--timeout=170s")
	}
}

func (p *putting) compare(when string, want map[string]string) {
	p.t.Helper()
	list, err := p.client.CoreV1().ConfigMaps(p.namespace).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	is, recorded := map[string]string{}, false
	for _, o := range list.Items {
		recorded = recorded || strings.HasSuffix(o.Annotations["shell-operator/set"], "/web")
		if o.Labels["applyset.kubernetes.io/part-of"] != "" && !strings.HasPrefix(o.Name, "probe-") {
			is[o.Name] = strings.Join(slices.Sorted(maps.Keys(o.Data)), "")
		}
	}
	if !maps.Equal(is, want) || recorded != (len(want) > 0) {
		p.t.Fatalf("%s: there is %v, with a record: %t; want %v", when, is, recorded, want)
	}
}

// sync sends the set "web" to a replica, and checks it.
func (p *putting) sync(when string, to *testenv.Operator, want map[string]string) {
	p.t.Helper()
	p.put(to, p.set("web", want))
	p.expect(when, want)
}

// changes are what two replicas do with the set, one after the other: other values, other keys, fewer objects, none.
func (p *putting) changes() {
	p.t.Helper()
	one := map[string]string{"a": "1", "b": "1"}
	p.sync("the restorer makes it", p.restorer, one)
	p.sync("the other replica has other values", p.other, map[string]string{"a": "4", "b": "1"})
	p.sync("the restorer makes what it has made before", p.restorer, one)
	p.sync("the other replica has fewer objects and more keys", p.other, map[string]string{"a": "12"})
	p.sync("the restorer makes it once more", p.restorer, one)
	p.sync("the other replica ends the set", p.other, map[string]string{})
}

// Two replicas of a leader election answer requests that change one set. What was answered last stays, also after the leader was killed.
func TestRequestsChangeASet(t *testing.T) {
	t.Parallel()
	p := newPutting(t, leads, "--leader-election", "--leader-election-lease-duration", "5s")
	p.changes()
	p.sync("the standby makes it", p.other, map[string]string{"a": "3", "b": "3"})
	two := map[string]string{"a": "12"}
	p.sync("the leader changes it", p.restorer, two)
	p.restorer.Expect(-1)
	p.restorer.Signal(syscall.SIGKILL)
	p.restorer.Wait()
	p.restorer = p.other
	p.restorer.UntilLog(leads)
	p.expect("the standby leads", two)
	p.sync("it makes what it has made as a standby", p.restorer, map[string]string{"a": "3", "b": "3"})
}

// The same with shards. A request may change the sets of another shard; those of a hook without shardBy belong to shard 0.
func TestRequestsChangeASetOfShards(t *testing.T) {
	t.Parallel()
	const serves = "This replica serves a shard"
	p := newPutting(t, serves, "--shards", "2", "--leader-election-lease-duration", "5s")
	p.other.UntilLog(serves)
	if p.restorer.UntilLog(serves).Fields["shard"] != "0/2" {
		p.restorer, p.other = p.other, p.restorer
	}
	p.changes()
}

// A command beside the running operator deletes its set: no member comes back without a record.
func TestSetIsDeletedBesideTheOperator(t *testing.T) {
	t.Parallel()
	p := newPutting(t, leads, "--leader-election")
	p.sync("the leader makes it", p.restorer, map[string]string{"a": "1", "b": "1"})
	out, err := exec.Command(testenv.Binary(t), "sets", "delete", "put.sh/web", "--kube-config", p.cluster.Kubeconfig,
		"--namespace", p.namespace).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.expect("the command has deleted it", map[string]string{})
	p.sync("the leader makes it again", p.restorer, map[string]string{"a": "1", "b": "1"})
}

// A hook that breaks changes nothing: the reload is rejected, the shards keep their owners and their division. A replica that starts
// meanwhile ends with the name of the hook, and serves its shard again when the hook is repaired.
func TestBrokenHookKeepsTheDivision(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	namespace, hooks := cluster.Namespace(t), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755)
		if err == nil {
			err = os.Rename(path, filepath.Join(hooks, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const divides = `[ "$1" != --config ] || echo '{configVersion: v1, settings: {shardBy: object}, kubernetes: [{kind: Secret, ` +
		`labelSelector: {matchLabels: {shards: never}}}]}'`
	write("good.sh", divides)
	write("flaky.sh", divides)
	const serves = "This replica serves a shard"
	start := func(name string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Env: []string{"POD_NAME=" + name},
			Args: []string{"--namespace", namespace, "--kubernetes-events=false", "--shards", "2", "--watch-hooks",
				"--leader-election-lease-duration", "5s"}})
	}
	stays, ends := start("stays"), start("ends")
	served := ends.UntilLog(serves).Fields
	division := stays.UntilLog(serves).Fields["division"]
	write("flaky.sh", "exit 1")
	for _, op := range []*testenv.Operator{stays, ends} {
		op.UntilLog("Reload rejected, the previous hooks stay active")
	}
	ends.Expect(-1)
	ends.Signal(syscall.SIGKILL)
	ends.Wait()
	broken := start("broken")
	broken.Expect(1)
	if status := broken.Wait(); status != 1 || !strings.Contains(broken.Errors.String(), `cannot load hooks: hook "flaky.sh"`) {
		t.Errorf("a start with the broken hook ended with status %d: %s", status, broken.Errors.String())
	}
	write("flaky.sh", divides)
	again := start("again").UntilLog(serves).Fields
	if again["division"] != division || again["shard"] != served["shard"] {
		t.Errorf("it serves %v, not shard %s of division %s", again, served["shard"], division)
	}
	for _, r := range stays.Records() {
		if r.Has(serves) && r.Fields["division"] != division || strings.HasPrefix(r.Fields["msg"], "shutdown") {
			t.Errorf("the other replica: %s", r.Text)
		}
	}
}
