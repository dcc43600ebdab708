package failover

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// setsHook makes the set in a file complete at each start.
const setsHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
cat "$SYNC" >"$KUBERNETES_PATCH_PATH"
`

// growing is a set that changes from version to version: half of its members stay, the others have new names, and some are in another
// namespace.
type growing struct {
	t           *testing.T
	here, there string
	client      kubernetes.Interface
	members     int
}

// version returns a version of the set: its objects as namespace/name, each with its value.
func (g *growing) version(v int) (document []byte, want map[string]string) {
	want = map[string]string{}
	var objects []any
	for i := range g.members { // 2 is in the same namespace always
		namespace, name := g.here, fmt.Sprint("kept-", i)
		if i%2 == 1 {
			name = fmt.Sprintf("version-%d-%d", v, i)
		}
		if i%10 == v%10 && i != 2 {
			namespace = g.there
		}
		value := fmt.Sprint(v)
		want[namespace+"/"+name] = value
		objects = append(objects, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": namespace, "name": name}, "data": map[string]string{"v": value}})
	}
	document, err := json.Marshal(map[string]any{
		"operation": "Sync", "set": "growing",
		"owner": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": g.here, "name": "owner"}, "objects": objects,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return document, want
}

const (
	partOf = "applyset.kubernetes.io/part-of"
	copied = "copied-"
)

// read returns the values of the members, and the versions of all other objects but the parent.
func (g *growing) read() (members, others map[string]string) {
	g.t.Helper()
	members, others = map[string]string{}, map[string]string{}
	for _, namespace := range []string{g.here, g.there} {
		list, err := g.client.CoreV1().ConfigMaps(namespace).List(g.t.Context(), metav1.ListOptions{})
		if err != nil {
			g.t.Fatal(err)
		}
		for _, o := range list.Items {
			switch at := namespace + "/" + o.Name; {
			case o.Labels[partOf] != "" && !strings.HasPrefix(o.Name, copied):
				members[at] = o.Data["v"]
			case o.Labels["applyset.kubernetes.io/id"] == "" && o.Name != "kube-root-ca.crt" && o.Name != "shell-operator-finalizers":
				others[at] = string(o.UID) + " " + o.ResourceVersion
			}
		}
	}
	return members, others
}

// An operator is killed after a random request of a Sync, again and again, while the set changes from start to start. The next one that is
// left alone makes exactly the set of its version, and no object that is no member differs.
func TestKillDuringSync(t *testing.T) {
	kills, members, complete := 6, 200, 3
	if test.Long() {
		kills, members, complete = 200, 10_000, 10
	}
	cluster := testenv.Shared(t)
	config := cluster.Config(t)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	g := &growing{t: t, here: cluster.Namespace(t), there: cluster.Namespace(t), client: client, members: members}
	for _, o := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: g.here, Name: "owner"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: g.here, Name: "stranger"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: g.there, Name: "stranger"}},
	} {
		if _, err := client.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sync.json")
	hooks := filepath.Join(dir, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hooks, "hook.sh"), []byte(setsHook), 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(document []byte, kubeconfig string) *testenv.Operator {
		if err := os.WriteFile(file, document, 0o600); err != nil {
			t.Fatal(err)
		}
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: kubeconfig, Env: []string{"SYNC=" + file},
			Args: []string{"--namespace", g.here}})
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	_, others := g.read()
	for kill := range kills {
		there, _ := g.read()
		document, want := g.version(kill)
		unwanted := 0
		for name := range there {
			if _, wanted := want[name]; !wanted {
				unwanted++
			}
		}
		gateway, kubeconfig := testenv.NewGateway(t, cluster.Kubeconfig, seed)
		op := start(document, kubeconfig)
		at := 1 + random.IntN(len(want)+unwanted+1) // the parent, the applies, the deletions
		gateway.UntilMore(t, at)
		op.Expect(-1)
		op.Signal(syscall.SIGKILL)
		op.Wait()
		t.Logf("seed %d, kill %d: after request %d, with %d objects to apply and %d to delete", seed, kill, at, len(want), unwanted)
		if (kill+1)%complete != 0 {
			continue
		}
		op = start(document, cluster.Kubeconfig)
		if err := op.TryUntil(10*time.Minute, func(all []testenv.Record) bool { // a set of 10,000 objects is large
			return slices.ContainsFunc(all, func(r testenv.Record) bool { return r.Has("Hook executed successfully") })
		}); err != nil {
			t.Fatal(err)
		}
		op.Signal(syscall.SIGTERM)
		op.Wait()
		members, after := g.read()
		for _, difference := range append(differences(members, want), differences(after, others)...) {
			t.Errorf("after kill %d: %s", kill, difference)
		}
		if t.Failed() {
			return
		}
		g.copyLabel(kill)
		_, others = g.read()
	}
}

// copyLabel creates an object with the label of the set, as a controller does that copies labels.
func (g *growing) copyLabel(n int) {
	g.t.Helper()
	maps := g.client.CoreV1().ConfigMaps(g.here)
	member, err := maps.Get(g.t.Context(), "kept-2", metav1.GetOptions{})
	if err == nil {
		_, err = maps.Create(g.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(copied, n), Labels: member.Labels}},
			metav1.CreateOptions{})
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// differences describes what is in one of two maps only, or has another value.
func differences(is, want map[string]string) (all []string) {
	for name, value := range want {
		if is[name] != value {
			all = append(all, fmt.Sprintf("%s is %q, not %q", name, is[name], value))
		}
	}
	for name := range is {
		if _, wanted := want[name]; !wanted {
			all = append(all, name+" is there")
		}
	}
	if len(all) > 20 {
		all = append(all[:20], strings.Repeat(".", 3))
	}
	return all
}
