package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
	"github.com/shell-operator/shell-operator/test/chaos/record"
)

// patience is for what takes moments on an idle machine. Watches that were lost come back within seconds, tokens within
// a minute.
const patience = 150 * time.Second

// world is all that belongs to one case: an operator with its hooks, objects that change, and trouble.
type world struct {
	t         testing.TB
	seed      uint64
	random    *rand.Rand
	cluster   *testenv.Cluster
	client    *kubernetes.Clientset
	dynamic   dynamic.Interface
	namespace string
	// second is a namespace that has the label by which the hook "labelled" selects, mirrors has the copies.
	second, mirrors string
	// dir is where hooks and test meet, tmp the operator's temp directory.
	dir, hooksDir, tmp string
	kubeconfig         string
	tokens             int
	gateway            *testenv.Gateway
	writer             *writer
	records            *records

	// op runs the hooks, and is the last of starts; standby is nil unless there are two with leader election.
	op, standby *testenv.Operator
	starts      []start
	// down is true while no operator runs.
	down    bool
	windows []window
	hiding  []window
	// flapped is true once the second namespace has left the selection and come back.
	flapped bool
	// destroyed is true once runs may have failed without their hooks noticing.
	destroyed bool
	// smallDisk is true if tmp is on a disk that may be full.
	smallDisk bool
	// workers is how many there may be at rest.
	workers int
	// rest is what the operator held when it was at rest for the first time.
	rest usage
	// ignore leaves lines of the operator's log out.
	ignore func(string) bool
}

// hookConfigs are the hooks of every case, by name. $NS, $SECOND, $MIRRORS and $GROUP are replaced.
var hookConfigs = map[string]string{
	"plain": `
kubernetes:
- {name: b, apiVersion: v1, kind: ConfigMap, queue: plain, waitForSynchronization: false, namespace: {nameSelector: {matchNames: [$NS]}}}`,
	"filtered": `
kubernetes:
- name: b
  apiVersion: v1
  kind: ConfigMap
  queue: filtered
  keepFullObjectsInMemory: false
  namespace: {nameSelector: {matchNames: [$NS]}}
  jqFilter: '{namespace: .metadata.namespace, kind, name: .metadata.name, uid: .metadata.uid, count: (.metadata.annotations.count // "0" | tonumber / 3 | floor * 3)}'`,
	"grouped": `
kubernetes:
- {name: first, group: g, apiVersion: v1, kind: ConfigMap, queue: grouped, namespace: {nameSelector: {matchNames: [$NS]}}}
- {name: second, group: g, apiVersion: v1, kind: ConfigMap, queue: grouped, namespace: {nameSelector: {matchNames: [$SECOND]}}}`,
	"labelled": `
kubernetes:
- {name: b, apiVersion: v1, kind: ConfigMap, queue: labelled, namespace: {labelSelector: {matchLabels: {chaos: $NS}}}}`,
	"mirror": `
kubernetes:
- {name: b, apiVersion: v1, kind: ConfigMap, queue: mirror, includeSnapshotsFrom: [copies], namespace: {nameSelector: {matchNames: [$NS]}}}
- {name: copies, apiVersion: v1, kind: ConfigMap, executeHookOnEvent: [], executeHookOnSynchronization: false, namespace: {nameSelector: {matchNames: [$MIRRORS]}}}`,
	"widgets": `
kubernetes:
- {name: b, apiVersion: $GROUP/v1, kind: Widget, queue: widgets, namespace: {nameSelector: {matchNames: [$NS]}}}`,
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// newWorld prepares a case. through makes the operator's requests go through a gateway.
func newWorld(t testing.TB, cluster *testenv.Cluster, seed uint64, through bool, hooks ...string) *world {
	t.Helper()
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), cluster: cluster, dir: t.TempDir(), hooksDir: t.TempDir(),
		tmp: filepath.Join(t.TempDir(), "tmp")}
	config := cluster.Config(t)
	var err error
	if w.client, err = kubernetes.NewForConfig(config); err == nil {
		w.dynamic, err = dynamic.NewForConfig(config)
	}
	w.must(err)
	w.namespace, w.second, w.mirrors = w.makeNamespace(nil), "", ""
	w.second = w.makeNamespace(map[string]string{"chaos": w.namespace})
	w.label(w.namespace, true)
	w.mirrors = w.makeNamespace(nil)
	places := []place{{configMaps, "ConfigMap", w.namespace}, {configMaps, "ConfigMap", w.second}}
	if slices.Contains(hooks, "widgets") {
		w.makeCRD("v1")
		places = append(places, w.widgets("v1"))
	}
	w.writer = newWriter(w.dynamic, rand.New(rand.NewPCG(seed, 3)), places...) // its plan does not depend on what else is random
	t.Cleanup(w.writer.stop)
	w.install(hooks)
	w.makeIdentity(through)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) makeNamespace(labels map[string]string) string {
	w.t.Helper()
	ns, err := w.client.CoreV1().Namespaces().Create(context.Background(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "chaos-", Labels: labels}}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	})
	return ns.Name
}

// install puts the hooks into the hooks directory.
func (w *world) install(hooks []string) {
	w.t.Helper()
	program := recorder(w.t)
	words := strings.NewReplacer("$NS", w.namespace, "$SECOND", w.second, "$MIRRORS", w.mirrors, "$GROUP", w.group())
	for _, name := range hooks {
		text := "configVersion: v1\nsettings: {executionTimeout: 5s}" + words.Replace(hookConfigs[name])
		w.must(os.WriteFile(filepath.Join(w.dir, name+".yaml"), []byte(text), 0o600))
		w.must(os.WriteFile(filepath.Join(w.dir, name+".record"), nil, 0o600))
		w.must(os.Link(program, filepath.Join(w.hooksDir, name)))
	}
	w.records = followRecords(w.t, w.dir, hooks)
}

// recorder builds the program of the hooks, once.
func recorder(t testing.TB) string {
	t.Helper()
	path, err := builtRecorder()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtRecorder = sync.OnceValues(func() (string, error) {
	path := filepath.Join(test.Root(), "bin", "test", "recorder")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	cmd := exec.Command("go", "build", "-o", own, "./test/chaos/recorder")
	cmd.Dir = test.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the recorder: %w\n%s", err, out)
	}
	return path, os.Rename(own, path)
})

// makeIdentity gives the operator a ServiceAccount with its own permissions, and a token in a file.
func (w *world) makeIdentity(through bool) {
	w.t.Helper()
	ctx := context.Background()
	_, err := w.client.CoreV1().ServiceAccounts(w.mirrors).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}},
		metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Rules: w.rules()}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.namespace},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "operator", Namespace: w.mirrors}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		_ = w.client.RbacV1().ClusterRoleBindings().Delete(ctx, w.namespace, metav1.DeleteOptions{})
		_ = w.client.RbacV1().ClusterRoles().Delete(ctx, w.namespace, metav1.DeleteOptions{})
	})
	w.newToken()

	config, err := clientcmd.LoadFromFile(w.cluster.Kubeconfig)
	w.must(err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(w.dir, "token")}
	}
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	w.must(clientcmd.WriteToFile(*config, w.kubeconfig))
	if through {
		w.gateway, w.kubeconfig = testenv.NewGateway(w.t, w.kubeconfig, w.seed)
	}
}

func (w *world) rules() []rbacv1.PolicyRule {
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces"}, Verbs: everything},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: everything},
		{APIGroups: []string{w.group()}, Resources: []string{"widgets"}, Verbs: everything},
	}
}

// newToken writes a token that is good as long as a Secret exists, and returns the Secret's name.
func (w *world) newToken() string {
	w.t.Helper()
	ctx := context.Background()
	w.tokens++
	secret, err := w.client.CoreV1().Secrets(w.mirrors).Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("token-", w.tokens)}}, metav1.CreateOptions{})
	w.must(err)
	token, err := w.client.CoreV1().ServiceAccounts(w.mirrors).CreateToken(ctx, "operator", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret",
			Name: secret.Name, UID: secret.UID}},
	}, metav1.CreateOptions{})
	w.must(err)
	path := filepath.Join(w.dir, "token")
	w.must(os.WriteFile(path+".new", []byte(token.Status.Token), 0o600))
	w.must(os.Rename(path+".new", path))
	return secret.Name
}

// launch starts the operator; a case may do so several times.
func (w *world) launch(args ...string) {
	w.t.Helper()
	s := start{name: fmt.Sprint(len(w.starts) + 1), at: time.Now()}
	w.starts = append(w.starts, s)
	w.op, w.down = w.run(s, nil, args...), false
}

func (w *world) run(s start, env []string, args ...string) *testenv.Operator {
	w.t.Helper()
	return testenv.Start(w.t, testenv.OperatorOptions{
		HooksDir: w.hooksDir, Kubeconfig: w.kubeconfig, TmpDir: w.tmp, Ignore: w.ignore,
		Args: append([]string{"--retry-min-delay", "200ms", "--retry-max-delay", "2s"}, args...),
		Env:  append(env, "CHAOS_DIR="+w.dir, "CHAOS_OPERATOR="+s.name, "CHAOS_MIRROR="+w.mirrors),
	})
}

// lose runs something that may break watches. Until the barrier behind it has been seen, changes may be missed.
func (w *world) lose(do func()) {
	w.t.Helper()
	from := time.Now()
	do()
	w.settle()
	w.windows = append(w.windows, window{from, time.Now()})
	if w.flapped {
		w.hiding = append(w.hiding, window{from, time.Now()})
	}
}

// hide is lose for what breaks no watch, but may take a namespace out of sight.
func (w *world) hide(do func()) {
	w.t.Helper()
	from := time.Now()
	do()
	w.settle()
	if w.flapped {
		w.hiding = append(w.hiding, window{from, time.Now()})
	}
}

// act sets the faults that a hook injects in its next runs.
func (w *world) act(hook string, acts ...string) {
	w.t.Helper()
	path := filepath.Join(w.dir, hook+".act")
	w.must(os.WriteFile(path+".test", []byte(strings.Join(acts, "\n")+"\n"), 0o600))
	w.must(os.Rename(path+".test", path))
}

func (w *world) hooks() []string { return slices.Sorted(maps.Keys(w.views())) }

// views are how the hooks see the objects.
func (w *world) views() map[string]view {
	in := func(kind string, namespaces ...string) func(string) bool {
		return func(k string) bool {
			parts := strings.Split(k, "/")
			return parts[0] == kind && slices.Contains(namespaces, parts[1])
		}
	}
	all := map[string]view{
		"plain":    {binding: "b", sees: in("ConfigMap", w.namespace)},
		"filtered": {binding: "b", sees: in("ConfigMap", w.namespace), coarse: func(n int) int { return n / 3 * 3 }},
		"grouped":  {binding: "first", sees: in("ConfigMap", w.namespace)},
		"labelled": {binding: "b", sees: in("ConfigMap", w.namespace, w.second), hidden: func(k string) []window {
			if strings.Contains(k, "/"+w.second+"/") {
				return w.hiding
			}
			return nil
		}},
		"mirror":  {binding: "b", sees: in("ConfigMap", w.namespace)},
		"widgets": {binding: "b", sees: in("Widget", w.namespace)},
	}
	entries, err := os.ReadDir(w.hooksDir)
	w.must(err)
	there := map[string]view{}
	for _, e := range entries {
		if v, ok := all[e.Name()]; ok {
			v.lost = w.windows
			there[e.Name()] = v
		}
	}
	return there
}

// settle waits until every hook has received the barrier, and its run has succeeded.
func (w *world) settle() {
	w.t.Helper()
	started := time.Now()
	counts := w.writer.barrier()
	written := time.Since(started)
	defer func() {
		if took := time.Since(started); took > 20*time.Second {
			w.t.Logf("it took %s until the last change was written, and %s until all hooks had received it", written, took)
		}
	}()
	for _, name := range w.hooks() {
		v := w.views()[name]
		for k, count := range counts {
			if v.sees(k) && !w.records.until(patience, name, func(lines []record.Line) bool { return w.reached(lines, name, v, k, count) }) {
				w.t.Fatalf("hook %s did not receive the last change (%s %d) within %s", name, k, count, patience)
			}
		}
	}
}

// reached reports whether a run of the latest operator that received a state of an object, or a later one, has ended.
func (w *world) reached(lines []record.Line, hook string, v view, k string, count int) bool {
	if v.coarse != nil {
		count = v.coarse(count)
	}
	operator := w.starts[len(w.starts)-1].name
	is := func(s record.State) bool { return key(s) == k && s.Count >= count }
	waiting := map[string]bool{}
	for _, l := range slices.Backward(lines) {
		if l.Operator != operator {
			return false
		}
		if l.Done {
			waiting[l.Run] = true
			continue
		}
		for _, c := range l.Contexts {
			shown := c.Object != nil && is(*c.Object) || slices.ContainsFunc(c.Objects, is)
			if hook == "grouped" {
				shown = slices.ContainsFunc(c.Snapshots[v.binding], is)
			}
			if shown && waiting[l.Run] {
				return true
			}
		}
	}
	return false
}

// verdict checks everything that the hooks have seen, after a last barrier.
func (w *world) verdict() (wrong []string) {
	w.t.Helper()
	w.writer.stop()
	w.settle()
	w.idle()
	h := w.writer.history()
	wrong = w.writer.verify(context.Background())
	for _, name := range w.hooks() {
		v := w.views()[name]
		v.divides = w.smallDisk
		lines := w.records.of(name)
		if name == "grouped" {
			last := lastRun(lines)
			wrong = append(wrong, checkSnapshot(h, v, last.Snapshots["first"])...)
			v.binding, v.sees = "second", func(k string) bool { return strings.HasPrefix(k, "ConfigMap/"+w.second+"/") }
			wrong = append(wrong, checkSnapshot(h, v, last.Snapshots["second"])...)
			continue
		}
		seen := sessions(lines, w.starts)
		if name == "mirror" || w.destroyed {
			seen = refused(seen)
		}
		for _, text := range check(h, v, seen) {
			wrong = append(wrong, "hook "+name+": "+text)
		}
		if name == "mirror" {
			wrong = append(wrong, w.copies(h)...)
		}
	}
	return append(wrong, w.leaks()...)
}

// lastRun is the last context of a hook's last run.
func lastRun(lines []record.Line) (last record.Context) {
	for _, l := range lines {
		for _, c := range l.Contexts {
			last = c
		}
	}
	return last
}

// copies checks that what the hook "mirror" handed back has been done, all of it: two copies of each object.
func (w *world) copies(h history) (wrong []string) {
	want := map[string]string{}
	for k, all := range h {
		name, here := strings.CutPrefix(k, "ConfigMap/"+w.namespace+"/")
		if last := all[len(all)-1]; here && !last.gone {
			want[name+".left"], want[name+".right"] = fmt.Sprint(last.count), fmt.Sprint(last.count)
		}
	}
	list, err := w.client.CoreV1().ConfigMaps(w.mirrors).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	for _, o := range list.Items {
		if o.Name == rootCertificate {
			continue
		}
		if want[o.Name] != o.Annotations["count"] {
			wrong = append(wrong, fmt.Sprintf("the copy %s says %s, not %s", o.Name, o.Annotations["count"], want[o.Name]))
		}
		delete(want, o.Name)
	}
	for name := range want {
		wrong = append(wrong, "there is no copy "+name)
	}
	slices.Sort(wrong)
	return wrong
}

// kill ends the operator with SIGKILL; its child processes continue.
func (w *world) kill() {
	if w.down {
		return
	}
	w.op.Expect(-1)
	w.op.Signal(syscall.SIGKILL)
	w.op.Wait()
}

// seen counts the changes that hooks received.
func (w *world) seen() (n int) {
	for _, name := range w.hooks() {
		for _, l := range w.records.of(name) {
			n += len(l.Contexts)
		}
	}
	return n
}
