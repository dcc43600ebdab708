package applyset

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

var errKilled = errors.New("the process was killed")

// kill lets a process end at request n: before it is sent, or before the response is read.
func (c *traffic) kill(n int, sent bool) {
	c.before = func(i int, _ *http.Request) error {
		if i > n || i == n && !sent {
			return errKilled
		}
		return nil
	}
	c.after = func(i int, _ *http.Request) error {
		if i >= n {
			return errKilled
		}
		return nil
	}
}

// firstKill and killStride are the requests at which a process is killed: in make test each of them once, either before it is sent or
// before its response is read; in make long each in both ways.
func firstKill(sent bool) int {
	if sent && !test.Long() {
		return 2
	}
	return 1
}

func killStride() int {
	if test.Long() {
		return 1
	}
	return 2
}

// configMaps returns the ConfigMaps of a namespace by name, without kube-root-ca.crt and the parents of sets.
func configMaps(t testing.TB, client rest.Interface, namespace string) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	text, err := kube.Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces", namespace, "configmaps"))
	if err != nil {
		t.Fatal(err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]metav1.PartialObjectMetadata{}
	for _, o := range list.Items {
		if o.Name != "kube-root-ca.crt" && o.Labels[idLabel] == "" {
			found[o.Name] = o
		}
	}
	return found
}

func post(t testing.TB, client rest.Interface, namespace, resource, manifest string) {
	t.Helper()
	if _, err := kube.Send(t.Context(), client.Post().AbsPath("/api/v1/namespaces", namespace, resource).Param("fieldManager", "stranger").
		SetHeader("Content-Type", "application/json").Body([]byte(manifest))); err != nil {
		t.Fatal(err)
	}
}

// A process that is killed at any request leaves what the next one completes: exactly the wanted set, and nothing else is touched.
func TestKilledAtEachRequest(t *testing.T) {
	cluster := inMemory(t)
	members := 2
	if test.Long() {
		members = 100
	}
	// Members move from one namespace to another, change, appear and disappear.
	document := func(here, there, from, to string, data int) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"operation": "Sync", "set": "web", "owner": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, `+
			`"name": "owner"}, "objects": [`, here)
		for i := range members {
			fmt.Fprintf(&b, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s-%d"}, "data": {"v": "%d"}},`, from, i, data)
		}
		fmt.Fprintf(&b, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same"}, "data": {"v": "%d"}},`, data)
		fmt.Fprintf(&b, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "away", "namespace": %q}}]}`, to)
		return strings.ReplaceAll(b.String(), "THERE", there)
	}
	client := testenv.Client(t, cluster.Config(t))
	type point struct {
		n    int
		sent bool
	}
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("response lost=%t", sent), func(t *testing.T) {
			t.Parallel()
			for n := firstKill(sent); ; n += killStride() {
				p := point{n, sent}
				here, there := cluster.Namespace(t), cluster.Namespace(t)
				post(t, client, here, "configmaps", `{"metadata": {"name": "owner"}}`)
				post(t, client, here, "configmaps", `{"metadata": {"name": "stranger"}, "data": {"v": "1"}}`)
				stranger := configMaps(t, client, here)["stranger"].ResourceVersion
				before, after := document(here, there, "old", here, 1), document(here, there, "new", there, 2)
				if err := newOperator(t, cluster.Config(t), here, here, false).sync(t.Context(), "web.sh", before); err != nil {
					t.Fatal(err)
				}
				killed := newOperator(t, cluster.Config(t), here, here, false)
				killed.traffic.kill(p.n, p.sent)
				if err := killed.sync(t.Context(), "web.sh", after); err == nil {
					return
				}
				next := newOperator(t, cluster.Config(t), here, here, false)
				if err := next.sync(t.Context(), "web.sh", after); err != nil {
					t.Fatalf("killed at %v: %v", p, err)
				}
				var names []string
				for name, o := range configMaps(t, client, here) {
					names = append(names, name)
					if _, member := o.Labels[partOfLabel]; member != (name != "owner" && name != "stranger") {
						t.Errorf("killed at %v: %s has the labels %v", p, name, o.Labels)
					}
				}
				slices.Sort(names)
				want := []string{"owner", "same", "stranger"}
				for i := range members {
					want = append(want, fmt.Sprintf("new-%d", i))
				}
				slices.Sort(want)
				if away := configMaps(t, client, there); !slices.Equal(names, want) || len(away) != 1 || away["away"].Labels[partOfLabel] == "" {
					t.Fatalf("killed at %v: there are %v and %d elsewhere, want %v", p, names, len(away), want)
				}
				if configMaps(t, client, here)["stranger"].ResourceVersion != stranger {
					t.Fatalf("killed at %v: the object of another client was changed", p)
				}
				if n > 500 {
					t.Fatal("the Sync never ends")
				}
			}
		})
	}
}

// A move that is killed at any request leaves what the next one completes. The renamed hook then has exactly the wanted set, and nothing
// was deleted or created meanwhile: all objects keep their uid and their values.
func TestMoveKilledAtEachRequest(t *testing.T) {
	cluster := inMemory(t)
	client := testenv.Client(t, cluster.Config(t))
	for _, test := range []struct {
		name     string
		sent     bool
		hook, to string
	}{{"request lost", false, "site.sh", "web"}, {"response lost", true, "site.sh", "web"}, {"only the name", true, "web.sh", "site"}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for n := firstKill(test.sent); ; n += killStride() {
				namespace, away := cluster.Namespace(t), cluster.Namespace(t)
				document := func(set string, value int) string {
					return fmt.Sprintf(`{"operation": "Sync", "set": %q,
						"owner": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, "name": "owner"},
						"objects": [
						{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"mine": "x"}}, "data": {"v": "%d"}},
						{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare"}},
						{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "away", "namespace": %q}}]}`, set, namespace, value, away)
				}
				post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
				first := newOperator(t, cluster.Config(t), namespace, namespace, false)
				if err := first.sync(t.Context(), "web.sh", document("web", 1)); err != nil {
					t.Fatal(err)
				}
				sets, err := first.List(t.Context())
				if err != nil || len(sets) != 1 {
					t.Fatal(sets, err)
				}
				id := sets[0].ID
				post(t, client, namespace, "configmaps", `{"metadata": {"name": "copy", "labels": {"`+partOfLabel+`": "`+
					configMaps(t, client, namespace)["a"].Labels[partOfLabel]+`"}}}`)
				before := configMaps(t, client, namespace)
				move := func(o *operator) error {
					_, _, err := o.Adopt(t.Context(), slog.New(slog.DiscardHandler), id, Move{Hook: test.hook, Name: test.to})
					return err
				}
				killed := newOperator(t, cluster.Config(t), namespace, namespace, false)
				killed.traffic.kill(n, test.sent)
				ended := move(killed) == nil
				if !ended && n > 100 {
					t.Fatal("the move never ends")
				}
				if err := move(newOperator(t, cluster.Config(t), namespace, namespace, false)); err != nil &&
					!strings.Contains(err.Error(), "does not exist any more") {
					t.Fatalf("killed at %d: %v", n, err)
				}
				moved := configMaps(t, client, namespace)
				for name, o := range before {
					after := moved[name]
					switch isMember := name == "a" || name == "bare"; {
					case after.UID != o.UID:
						t.Fatalf("killed at %d: %s is another object", n, name)
					case isMember == (after.ResourceVersion == o.ResourceVersion):
						t.Fatalf("killed at %d: %s was changed: %t", n, name, !isMember)
					case isMember && (after.Labels[partOfLabel] == o.Labels[partOfLabel] || len(after.OwnerReferences) != 1):
						t.Fatalf("killed at %d: %s has the labels %v and references %v", n, name, after.Labels, after.OwnerReferences)
					}
				}
				next := newOperator(t, cluster.Config(t), namespace, namespace, false)
				if sets, err = next.List(t.Context()); err != nil || len(sets) != 1 || sets[0].Hook != test.hook || sets[0].Name != test.to {
					t.Fatalf("killed at %d: the sets are %v, %v", n, sets, err)
				}
				if members, err := next.Show(t.Context(), slog.New(slog.DiscardHandler), sets[0].ID); err != nil || len(members) != 3 {
					t.Fatalf("killed at %d: the members are %v, %v", n, members, err)
				}
				// Without force: the values are owned by the moved set.
				if err := next.sync(t.Context(), test.hook, document(test.to, 2)); err != nil {
					t.Fatalf("killed at %d: %v", n, err)
				}
				empty := fmt.Sprintf(`{"operation": "Sync", "set": %q, "owner": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, `+
					`"name": "owner"}, "objects": [], "allowEmpty": true}`, test.to, namespace)
				if err := next.sync(t.Context(), test.hook, empty); err != nil {
					t.Fatalf("killed at %d: %v", n, err)
				}
				if left := configMaps(t, client, namespace); len(left) != 2 || len(configMaps(t, client, away)) != 0 {
					t.Fatalf("killed at %d: %d objects are left", n, len(left))
				}
				if ended {
					return
				}
			}
		})
	}
}

// Another client creates an object between our read and our apply. It keeps what it has created, also if the response to our apply is
// lost, and a later empty set does not delete it.
func TestAppearsBetweenReadAndApply(t *testing.T) {
	cluster := inMemory(t)
	client := testenv.Client(t, cluster.Config(t))
	for _, test := range []struct {
		name, theirs string
		lost, apply  bool
	}{
		{"other keys", `"theirs": "1"`, false, false},
		{"the same keys", `"k": "1"`, false, false},
		{"a conflict", `"k": "2"`, false, false},
		{"other keys, lost", `"theirs": "1"`, true, false},
		{"the same keys, lost", `"k": "1"`, true, false},
		{"other keys, applied", `"theirs": "1"`, false, true},
		{"the same keys, applied", `"k": "1"`, false, true},
		{"the same keys, applied, lost", `"k": "1"`, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			o := newOperator(t, cluster.Config(t), namespace, namespace, false)
			var once, losing sync.Once
			o.traffic.after = func(_ int, r *http.Request) (err error) {
				if test.lost && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/taken") {
					losing.Do(func() { err = errKilled })
				}
				return err
			}
			o.traffic.before = func(_ int, r *http.Request) error {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/taken") {
					once.Do(func() {
						manifest := `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken", "labels": {"a": "b"}}, "data": {` +
							test.theirs + `}}`
						if test.apply {
							if _, err := kube.Send(t.Context(), client.Patch(types.ApplyPatchType).AbsPath(r.URL.Path).Param("fieldManager", "stranger").
								Body([]byte(manifest))); err != nil {
								t.Error(err)
							}
						} else {
							post(t, client, namespace, "configmaps", manifest)
						}
					})
				}
				return nil
			}
			const document = `{"operation": "Sync", "set": "web", "objects": [{"apiVersion": "v1", "kind": "ConfigMap", ` +
				`"metadata": {"name": "taken"}, "data": {"k": "1"}}]}`
			err := o.sync(t.Context(), "web.sh", document)
			if test.lost {
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				err = o.sync(t.Context(), "web.sh", document)
			}
			if err == nil || !strings.Contains(err.Error(), "it exists, with the managers stranger, and is not of this set") {
				t.Errorf("error %v", err)
			}
			check := func() {
				t.Helper()
				got := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "taken", "-o", "jsonpath={.metadata.labels}{.data}")
				if want := strings.ReplaceAll(`{"a":"b"}{`+test.theirs+`}`, ": ", ":"); got != want {
					t.Errorf("it is now %s, want %s", got, want)
				}
			}
			check()
			if err := o.sync(t.Context(), "web.sh", `{"operation": "Sync", "set": "web", "objects": [], "allowEmpty": true}`); err != nil {
				t.Error(err)
			}
			check()
		})
	}
}

// A controller changes a member in the second in which it is created, and the response is lost: it stays a member.
func TestTouchedAndLost(t *testing.T) {
	cluster := inMemory(t)
	client := testenv.Client(t, cluster.Config(t))
	for _, test := range []struct {
		name   string
		apply  bool
		change string
		want   string
	}{
		{"by an update", false, `{"metadata": {"annotations": {"a": "b"}}}`, `{"a":"b"}{"k":"1"}`},
		{"by an apply of metadata", true, `{"metadata": {"annotations": {"a": "b"}}}`, `{"a":"b"}{"k":"1"}`},
		{"by an apply of data", true, `{"data": {"theirs": "1"}}`, `{"k":"1","theirs":"1"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			o := newOperator(t, cluster.Config(t), namespace, namespace, false)
			first := true
			o.traffic.after = func(_ int, r *http.Request) error {
				if !strings.HasSuffix(r.URL.Path, "/mine") || r.Method != http.MethodPatch || !first {
					return nil
				}
				first = false
				kind := types.MergePatchType
				if test.apply {
					kind = types.ApplyPatchType
				}
				change := strings.Replace(test.change, "{", `{"apiVersion": "v1", "kind": "ConfigMap", `, 1)
				_, err := kube.Send(t.Context(), client.Patch(kind).AbsPath(r.URL.Path).Param("fieldManager", "controller").Body([]byte(change)))
				return errors.Join(err, errKilled)
			}
			const document = `{"operation": "Sync", "set": "web", "objects": [{"apiVersion": "v1", "kind": "ConfigMap", ` +
				`"metadata": {"name": "mine"}, "data": {"k": "1"}}]}`
			if err := o.sync(t.Context(), "web.sh", document); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if err := o.sync(t.Context(), "web.sh", document); err != nil {
				t.Error(err)
			}
			if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "mine", "-o",
				"jsonpath={.metadata.annotations}{.data}"); got != test.want {
				t.Errorf("it is now %s, want %s", got, test.want)
			}
		})
	}
}

// A Sync that finds an object created by another process of its installation between its read and its apply keeps it.
func TestMeetsOwnCreate(t *testing.T) {
	cluster := inMemory(t)
	for name, theirs := range map[string]string{"the same": "1", "another value": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			document := func(value string) string {
				return `{"operation": "Sync", "set": "web", "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, ` +
					`"data": {"k": "` + value + `"}}]}`
			}
			one, two := newOperator(t, cluster.Config(t), namespace, namespace, false),
				newOperator(t, cluster.Config(t), namespace, namespace, false)
			var once sync.Once
			one.traffic.before = func(_ int, r *http.Request) (err error) {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/x") {
					once.Do(func() { err = two.sync(t.Context(), "web.sh", document(theirs)) })
				}
				return err
			}
			for range 2 {
				if err := one.sync(t.Context(), "web.sh", document("1")); err != nil {
					t.Error(err)
				}
			}
			x := configMaps(t, one.options.Client, namespace)["x"]
			if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "x", "-o", "jsonpath={.data}"); got != `{"k":"1"}` ||
				x.Labels[partOfLabel] == "" {
				t.Errorf("it is now %s with the labels %v", got, x.Labels)
			}
			if err := two.sync(t.Context(), "web.sh", `{"operation": "Sync", "set": "web", "objects": [], "allowEmpty": true}`); err != nil {
				t.Error(err)
			}
			if left := configMaps(t, one.options.Client, namespace); len(left) > 0 {
				t.Errorf("%d objects are left", len(left))
			}
		})
	}
}
