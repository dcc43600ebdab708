package applyset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// follower of a test: an operator that restores, and what it reports.
type restorer struct {
	*operator
	differs chan string
	warned  chan string
	// watches receives the beginnings and ends of watches, logged the log of restores.
	watches, logged chan string
	// While the hook is paused, asked receives each question whether it runs. While requests are cut off, none is answered.
	paused, cutOff atomic.Bool
	asked          chan string
	// stop ends the process.
	stop func()
}

// lines receives the lines of a log.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// gate fails requests while it is closed.
type gate struct {
	next   http.RoundTripper
	closed *atomic.Bool
}

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.closed.Load() {
		return nil, errors.New("the gate is closed")
	}
	return g.next.RoundTrip(r)
}

// watching reports the watches that a client sends.
type watching struct {
	next http.RoundTripper
	to   chan<- string
}

func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("watch") {
		what := path.Base(r.URL.Path)
		w.to <- "begin of " + what
		context.AfterFunc(r.Context(), func() { w.to <- "end of " + what })
	}
	return w.next.RoundTrip(r)
}

func newRestorer(t *testing.T, cluster *testenv.Cluster, namespace string) *restorer {
	t.Helper()
	return newRestorerAt(t, cluster, namespace, nil)
}

func newRestorerAt(t *testing.T, cluster *testenv.Cluster, namespace string, now func() time.Time) *restorer {
	t.Helper()
	r := &restorer{
		differs: make(chan string, 100), warned: make(chan string, 100), watches: make(chan string, 100), logged: make(chan string, 100),
		asked: make(chan string, 100),
	}
	config := cluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gate{next, &r.cutOff} })
	r.operator = newOperator(t, config, namespace, namespace, false)
	config = cluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watching{next, r.watches} })
	r.options.Watch = testenv.Client(t, config)
	r.options.Log = slog.New(slog.NewTextHandler(lines(r.logged), nil))
	r.options.Active = func(hook string) bool {
		if r.paused.Load() {
			r.asked <- hook
			return false
		}
		return true
	}
	r.options.Differs = func(hook, set, kind string) { r.differs <- fmt.Sprint(hook, " ", set, " ", kind) }
	r.options.Warn = func(_ string, _ effect.Owner, reason, note string) { r.warned <- reason + ": " + note }
	r.options.Now = now
	r.Applier = New(r.options)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		end()
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		r.read(ended)
	})
	t.Cleanup(r.stop)
	return r
}

// read reads what is reported until a channel is closed, so that nothing waits for a reader.
func (r *restorer) read(until <-chan struct{}) {
	for {
		select {
		case <-r.differs:
		case <-r.watches:
		case <-r.logged:
		case <-r.warned:
		case <-r.asked:
		case <-until:
			return
		}
	}
}

func until(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if !strings.Contains(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(test.Patience):
		t.Fatalf("%q did not come", want)
	}
}

// Changes by other clients are restored, as far as the set has applied the fields.
func TestDrift(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	kubectl := func(args ...string) string {
		t.Helper()
		return cluster.Kubectl(t, append([]string{"-n", namespace}, args...)...)
	}
	owner := ""
	sync := func(rest string) {
		t.Helper()
		document := `{operation: Sync, set: web, owner: {apiVersion: v1, kind: ConfigMap, namespace: ` + namespace + `, name: owner` + owner +
			`}, ` + rest + `objects: [
			{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: "1"}},
			{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: d}},
				template: {metadata: {labels: {a: d}},
				spec: {containers: [{name: d, image: d}]}}}}]}`
		if err := r.sync(t.Context(), "web.sh", document); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("create", "configmap", "owner")
	sync("")
	owner = ", uid: " + kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")

	kubectl("patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "by hand", "theirs": "1"}}`)
	kubectl("wait", "--for=jsonpath={.data.k}=1", "configmap/a", "--timeout=60s")
	until(t, r.differs, "web.sh web ConfigMap")
	if got := kubectl("get", "configmap", "a", "-o", "jsonpath={.data}"); got != `{"k":"1","theirs":"1"}` {
		t.Errorf("data %s", got)
	}
	// The watch has delivered the restore, so a Sync that changes nothing reads the parent only.
	for deadline := time.Now().Add(test.Patience); ; {
		_ = r.traffic.String()
		sync("")
		if r.traffic.String() == "GET 1" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a Sync that changes nothing sends more requests")
		}
	}
	until(t, r.logged, "changedBy=kubectl-patch\n")
	uid := kubectl("get", "configmap", "a", "-o", "jsonpath={.metadata.uid}")
	kubectl("delete", "configmap", "a")
	until(t, r.differs, "web.sh web ConfigMap")
	until(t, r.logged, `changedBy="a deletion"`)
	kubectl("wait", "--for=create", "configmap/a", "--timeout=60s")
	if uid == kubectl("get", "configmap", "a", "-o", "jsonpath={.metadata.uid}") {
		t.Error("the ConfigMap was not deleted")
	}
	kubectl("label", "configmap", "a", "applyset.kubernetes.io/part-of-")
	until(t, r.differs, "web.sh web ConfigMap")
	kubectl("wait", "--for=jsonpath={.metadata.labels.applyset\\.kubernetes\\.io/part-of}", "configmap/a", "--timeout=60s")

	// Fields that are not in the manifest, and the status, are no differences. The next one shows that they were delivered.
	kubectl("scale", "deployment", "d", "--replicas=3")
	kubectl("patch", "deployment", "d", "--subresource=status", "--type=merge", "-p", `{"status": {"observedGeneration": 9}}`)
	kubectl("set", "image", "deployment/d", "d=other")
	until(t, r.differs, "web.sh web Deployment")
	kubectl("wait", "--for=jsonpath={.spec.template.spec.containers[0].image}=d", "deployment/d", "--timeout=60s")
	if got := kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("%s replicas, not 3", got)
	}

	// Another manager that applies is not fought.
	cluster.KubectlInput(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: theirs}}`, "-n", namespace, "apply",
		"--server-side", "--force-conflicts", "--field-manager=rival", "-f", "-")
	until(t, r.warned, "ObjectNotRestored: ConfigMap/"+namespace+"/a is not restored until the next run, because rival has applied its fields")
	if got := kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}"); got != "theirs" {
		t.Errorf("k is %s", got)
	}
	until(t, r.differs, "ConfigMap")
	if all := r.Contested(); len(all) != 1 || all[0].Hook != "web.sh" ||
		!strings.Contains(all[0].Notes[0], "because rival has applied its fields") {
		t.Errorf("contested: %+v", all)
	}
	sync("force: true, ")
	if all := r.Contested(); len(all) != 0 {
		t.Errorf("contested after the next run: %+v", all)
	}

	// Counted, and left alone.
	sync("force: true, drift: ignore, ")
	kubectl("patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "by hand"}}`)
	until(t, r.differs, "web.sh web ConfigMap")
	sync("force: true, ")
	if got := kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}"); got != "1" {
		t.Errorf("k is %s after the next run", got)
	}

	// The garbage collector is not fought either, and a recreated owner gets members of its own.
	kubectl("delete", "configmap", "owner")
	kubectl("create", "configmap", "owner")
	owner = ""
	sync("force: true, ")
	uid = kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	kubectl("wait", "--for=jsonpath={.metadata.ownerReferences[0].uid}="+uid, "configmap/a", "deployment/d", "--timeout=60s")
	kubectl("delete", "configmap", "owner")
	kubectl("wait", "--for=delete", "configmap/a", "deployment/d", "--timeout=60s")
}

// What was left alone during a pause is restored after it, and what could not be restored is tried again.
func TestRestoresLater(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	if err := r.sync(t.Context(), "web.sh", `{operation: Sync, set: web, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, `+
		`data: {k: "1"}}]}`); err != nil {
		t.Fatal(err)
	}
	until(t, r.watches, "begin of configmaps")
	r.paused.Store(true)
	cluster.Kubectl(t, "-n", namespace, "patch", "configmap", "a", "--patch", `{"data": {"k": "by hand"}}`)
	until(t, r.asked, "web.sh")
	r.paused.Store(false)
	r.Recheck()
	until(t, r.logged, "A changed object of a set is restored")
	until(t, r.differs, "web.sh web ConfigMap")

	r.cutOff.Store(true)
	cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "a")
	until(t, r.logged, "A changed object of a set is not restored yet")
	if all := r.Contested(); len(all) != 1 || all[0].Notes[0] != "ConfigMap/"+namespace+
		"/a is not restored, because requests fail: the log has the error" {
		t.Errorf("contested: %+v", all)
	}
	r.cutOff.Store(false)
	for range freeRestores - 1 { // one was made above
		until(t, r.logged, "A changed object of a set is restored")
		cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "a")
	}
	until(t, r.warned, "is changed repeatedly, by a deletion: the next restore follows in ")
}

// A member whose label gets another value is changed, whether the other set exists or not.
func TestRelabelled(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	label := func(value string) {
		t.Helper()
		cluster.Kubectl(t, "-n", namespace, "label", "--overwrite", "configmap", "a", partOfLabel+"="+value)
	}
	sync := func(rest string) {
		t.Helper()
		if err := r.sync(t.Context(), "web.sh", `{operation: Sync, `+rest+`}`); err != nil {
			t.Fatal(err)
		}
	}
	const objects = `objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: "1"}}, {apiVersion: v1, kind: ConfigMap, ` +
		`metadata: {name: b}}]`
	sync(`set: second, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]`)
	sync(`set: web, ` + objects)
	id := configMaps(t, r.options.Client, namespace)["a"].Labels[partOfLabel]
	second := configMaps(t, r.options.Client, namespace)["c"].Labels[partOfLabel]
	until(t, r.watches, "begin of configmaps")
	for _, other := range []string{"other", second} {
		label(other)
		until(t, r.differs, "web.sh web ConfigMap")
		cluster.Kubectl(t, "-n", namespace, "wait", `--for=jsonpath={.metadata.labels.applyset\.kubernetes\.io/part-of}=`+id, "configmap/a",
			"--timeout=60s")
	}

	// With drift: ignore the next Sync restores it, and what was changed after that.
	sync(`set: web, drift: ignore, ` + objects)
	label("other")
	until(t, r.differs, "web.sh web ConfigMap")
	cluster.Kubectl(t, "-n", namespace, "patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "2"}}`)
	until(t, r.differs, "web.sh web ConfigMap")
	sync(`set: web, drift: ignore, ` + objects)
	if got, want := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "a", "-o", `jsonpath={.metadata.labels}{.data}`),
		fmt.Sprintf(`{%q:%q}{"k":"1"}`, partOfLabel, id); got != want {
		t.Errorf("it is now %s, want %s", got, want)
	}

	// What a command has moved meanwhile is left to it.
	sync(`set: web, ` + objects)
	sets, err := r.List(t.Context())
	at := slices.IndexFunc(sets, func(s Set) bool { return s.Name == "web" })
	if err != nil || at < 0 {
		t.Fatal(sets, err)
	}
	command := newOperator(t, cluster.Config(t), namespace, namespace, false)
	if _, _, err := command.Adopt(t.Context(), slog.New(slog.DiscardHandler), sets[at].ID,
		Move{Hook: "web.sh", Name: "moved"}); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "c")
	until(t, r.differs, "web.sh second ConfigMap")
	if moved := configMaps(t, r.options.Client, namespace)["a"]; moved.Labels[partOfLabel] == id {
		t.Error("the member was moved back")
	}
}

// While a set waits, the members of others are restored, also if many of its own have changed. They are restored when it has ended.
func TestDriftWaitsForNoOtherSet(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	document := func(set string, members int, value string) string {
		var objects []string
		for i := range members {
			objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d}, data: {v: %q}}`, set, i, value))
		}
		return `{operation: Sync, set: ` + set + `, objects: [` + strings.Join(objects, ",") + `]}`
	}
	members := 2 * parallelRestores
	for set, n := range map[string]int{"slow": members, "quick": 1} {
		if err := r.sync(t.Context(), "web.sh", document(set, n, "1")); err != nil {
			t.Fatal(err)
		}
	}
	until(t, r.watches, "begin of configmaps")
	reached, released, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	var once sync.Once
	r.traffic.mu.Lock()
	r.traffic.after = func(_ int, req *http.Request) error {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/slow-") {
			once.Do(func() { close(reached) })
			<-released
		}
		return nil
	}
	r.traffic.mu.Unlock()
	go func() { ended <- r.sync(t.Context(), "web.sh", document("slow", members, "2")) }()
	<-reached
	for i := range members {
		cluster.Kubectl(t, "-n", namespace, "delete", "configmap", fmt.Sprint("slow-", i))
	}
	cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "quick-0")
	until(t, r.differs, "web.sh quick ConfigMap")
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "configmap/quick-0", "--timeout=60s")
	close(released)
	<-ended // some of its objects were deleted while it applied them
	for i := range members {
		cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", fmt.Sprintf("configmap/slow-%d", i), "--timeout=60s")
		cluster.Kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.data.v}=2", fmt.Sprintf("configmap/slow-%d", i), "--timeout=60s")
	}
}

// The objects of a kind that the set itself defines are watched from the first Sync on.
func TestDefinedKindsAreWatched(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	err := r.sync(t.Context(), "web.sh", fmt.Sprintf(`{operation: Sync, set: web, objects: [
{apiVersion: %[1]s.example.com/v1, kind: Thing, metadata: {name: one}},
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}},
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s.example.com},
spec: {group: %[1]s.example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object}}}]}}]}`, namespace))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "-n", namespace, "delete", "things."+namespace+".example.com", "one")
	until(t, r.differs, "web.sh web Thing")
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "things."+namespace+".example.com/one", "--timeout=60s")
}

// The annotation on a live object keeps it when its owner is deleted, from the moment in which it is set, and as long as it is there.
func TestKeptByAnnotation(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	kubectl := func(args ...string) string {
		t.Helper()
		return cluster.Kubectl(t, append([]string{"-n", namespace}, args...)...)
	}
	kubectl("create", "configmap", "owner")
	sync := func(value string) {
		t.Helper()
		if err := r.sync(t.Context(), "web.sh", `{operation: Sync, set: web, owner: {apiVersion: v1, kind: ConfigMap, namespace: `+namespace+
			`, name: owner}, objects: [
			{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: "`+value+`"}},
			{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}`); err != nil {
			t.Fatal(err)
		}
	}
	references := func(what ...string) string {
		t.Helper()
		return kubectl(
			append([]string{"get", "configmap", "-o", "jsonpath={.metadata.ownerReferences[*].name}{.items[*].metadata.ownerReferences[*].name}"},
				what...)...)
	}
	sync("1")
	if got := references("a"); got != "owner" {
		t.Fatalf("references of a: %q", got)
	}
	kubectl("annotate", "configmap", "a", "shell-operator/prune=disabled")
	until(t, r.logged, "is kept when its owner is deleted")
	if got := references("a"); got != "" {
		t.Errorf("references of the kept object: %q", got)
	}
	// What another client changes is restored without the reference.
	kubectl("patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "by hand"}}`)
	until(t, r.logged, "A changed object of a set is restored")
	if got := references("a"); got != "" {
		t.Errorf("references of a after the restore: %q", got)
	}
	sync("2")
	if got := references("a") + " " + kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}"); got != " 2" {
		t.Errorf("reference and value after a Sync: %q", got)
	}
	kubectl("annotate", "configmap", "a", "shell-operator/prune-")
	sync("2")
	if got := references("a"); got != "owner" {
		t.Errorf("references of a, which is kept no more: %q", got)
	}
	kubectl("annotate", "configmap", "a", "shell-operator/prune=disabled")
	until(t, r.logged, "is kept when its owner is deleted")
	kubectl("delete", "configmap", "owner")
	kubectl("wait", "--for=delete", "configmap/b", "--timeout=60s")
	if got := kubectl("get", "configmap", "a", "-o", "jsonpath={.metadata.deletionTimestamp}{.data.k}"); got != "2" {
		t.Errorf("the kept object is now %q", got)
	}
}

// A change of a member between the list and the end of a Sync is not forgotten where changes are left to the next Sync.
func TestIgnoredChangeDuringSync(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	apply := func(b string) {
		t.Helper()
		if err := r.sync(t.Context(), "web.sh", `{operation: Sync, set: web, drift: ignore, objects: [{apiVersion: v1, kind: ConfigMap, `+
			`metadata: {name: a}, data: {k: "1"}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "`+b+`"}}]}`); err != nil {
			t.Fatal(err)
		}
	}
	apply("1")
	until(t, r.watches, "begin of configmaps")
	var once sync.Once
	r.traffic.mu.Lock()
	r.traffic.after = func(_ int, req *http.Request) error {
		if req.URL.Query().Has("labelSelector") {
			once.Do(func() {
				cluster.Kubectl(t, "-n", namespace, "patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "by hand"}}`)
			})
		}
		return nil
	}
	r.traffic.mu.Unlock()
	apply("2")
	until(t, r.differs, "web.sh web ConfigMap")
	apply("2")
	if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "a", "-o", "jsonpath={.data.k}"); got != "1" {
		t.Errorf("the next Sync leaves %q", got)
	}
}

// Nothing is kept of the sets of a hook that is gone.
func TestHookIsGone(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	if err := r.sync(t.Context(), "web.sh", documentOf(map[string]string{"a": "1"})); err != nil {
		t.Fatal(err)
	}
	r.Drop(func(hook string) bool { return hook == "other.sh" })
	if sets, watches := r.kept(); sets != 1 || watches != 1 {
		t.Errorf("%d sets and %d watches are kept", sets, watches)
	}
	r.Drop(func(hook string) bool { return hook == "web.sh" })
	if sets, watches := r.kept(); sets+watches != 0 {
		t.Errorf("%d sets and %d watches are kept of a hook that is gone", sets, watches)
	}
}
