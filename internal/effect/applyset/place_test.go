package applyset

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// parents returns the names of the parents in a namespace.
func parents(t *testing.T, client rest.Interface, namespace string) (found []string) {
	t.Helper()
	text, err := kube.Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces", namespace, "configmaps").Param("labelSelector", idLabel))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []live }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		found = append(found, o.Name)
	}
	return found
}

// owned is a set with members in the namespace of its owner and in another one.
func owned(namespace, away string, value int) string {
	return fmt.Sprintf(`{"operation": "Sync", "set": "web", "owner": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": %q, "name": "owner"}, "objects": [
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"mine": "x"}}, "data": {"v": "%d"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "away", "namespace": %q}}]}`, namespace, value, away)
}

// A set of an earlier version, whose parent is in the namespace of its owner, is moved by the next Sync. A process that is killed at any
// request of that leaves what the next one completes: no object is deleted or created, and nothing else is touched. An operator in the
// namespace of the owner is as an earlier version: its parent has the same name there.
func TestEarlierPlaceKilledAtEachRequest(t *testing.T) {
	cluster := testenv.Shared(t)
	client := testenv.Client(t, cluster.Config(t))
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("response lost=%t", sent), func(t *testing.T) {
			t.Parallel()
			for n := firstKill(sent); ; n += killStride() {
				own, namespace, away := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
				post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
				if err := newOperator(t, cluster.Config(t), namespace, own, false).sync(t.Context(), "web.sh", owned(namespace, away, 1)); err != nil {
					t.Fatal(err)
				}
				post(t, client, namespace, "configmaps", `{"metadata": {"name": "copy", "labels": {"`+partOfLabel+`": "`+
					configMaps(t, client, namespace)["a"].Labels[partOfLabel]+`"}}}`)
				before := configMaps(t, client, namespace)
				killed := newOperator(t, cluster.Config(t), own, own, false)
				killed.traffic.kill(n, sent)
				ended := killed.sync(t.Context(), "web.sh", owned(namespace, away, 2)) == nil
				next := newOperator(t, cluster.Config(t), own, own, false)
				if err := next.sync(t.Context(), "web.sh", owned(namespace, away, 2)); err != nil {
					t.Fatalf("killed at %d: %v", n, err)
				}
				after := configMaps(t, client, namespace)
				for name, o := range before {
					isMember := name == "a" || name == "bare"
					if is := after[name]; is.UID != o.UID || !isMember && is.ResourceVersion != o.ResourceVersion ||
						isMember && (is.Labels[partOfLabel] == o.Labels[partOfLabel] || len(is.OwnerReferences) != 1) {
						t.Fatalf("killed at %d: %s has the labels %v and references %v", n, name, is.Labels, is.OwnerReferences)
					}
				}
				if here, there := parents(t, client, own), parents(t, client, namespace); len(here) != 1 || len(there) != 0 ||
					len(after) != len(before) {
					t.Fatalf("killed at %d: the parents are %v, and in the earlier place %v", n, here, there)
				}
				sets, err := next.List(t.Context())
				if next.Count(t.Context(), sets); err != nil || len(sets) != 1 || sets[0].Members != 3 {
					t.Fatalf("killed at %d: the sets are %v, %v", n, sets, err)
				}
				// Another process finds the set in its place, without a request for the earlier one.
				third := newOperator(t, cluster.Config(t), own, own, false)
				if err := third.sync(t.Context(), "web.sh", owned(namespace, away, 2)); err != nil {
					t.Fatalf("killed at %d: %v", n, err)
				}
				if got, want := third.traffic.String(), "GET 2, PATCH 3"; got != want {
					t.Fatalf("killed at %d: the next process sends %s, want %s", n, got, want)
				}
				if _, _, err := third.Delete(t.Context(), slog.New(slog.DiscardHandler), own, sets[0].ID); err != nil {
					t.Fatalf("killed at %d: %v", n, err)
				}
				if left := configMaps(t, client, namespace); len(left) != 2 || len(configMaps(t, client, away)) != 0 ||
					len(parents(t, client, own)) != 0 {
					t.Fatalf("killed at %d: %d objects are left", n, len(left))
				}
				if ended {
					return
				}
				if n > 200 {
					t.Fatal("the Sync never ends")
				}
			}
		})
	}
}

// Commands find sets in both namespaces. A dry run shows the changes of the objects only.
func TestEarlierPlaceAndCommands(t *testing.T) {
	cluster := testenv.Shared(t)
	client := testenv.Client(t, cluster.Config(t))
	log := slog.New(slog.DiscardHandler)
	for _, command := range []string{"show", "delete", "adopt", "dry run", "sync"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			own, namespace, away := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
			post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
			if err := newOperator(t, cluster.Config(t), namespace, own, false).sync(t.Context(), "web.sh", owned(namespace, away, 1)); err != nil {
				t.Fatal(err)
			}
			o := newOperator(t, cluster.Config(t), own, own, command == "dry run")
			sets, err := o.List(t.Context())
			if err != nil || len(sets) != 1 || sets[0].Namespace != namespace || sets[0].Hook != "web.sh" {
				t.Fatal(sets, err)
			}
			if mine, err := o.ListOwn(t.Context()); err != nil || len(mine) != 0 {
				t.Errorf("in the operator's namespace: %v, %v", mine, err)
			}
			switch command {
			case "show":
				if members, err := o.Show(t.Context(), log, namespace, sets[0].ID); err != nil || len(members) != 3 {
					t.Errorf("%v, %v", members, err)
				}
			case "delete":
				if deleted, _, err := o.Delete(t.Context(), log, namespace, sets[0].ID); err != nil || deleted != 3 {
					t.Errorf("%d deleted, %v", deleted, err)
				}
				if left := parents(t, client, namespace); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			case "adopt":
				if _, moved, err := o.Adopt(t.Context(), log, namespace, sets[0].ID, Move{Hook: "site.sh", Name: "site"}); err != nil || moved != 3 {
					t.Errorf("%d moved, %v", moved, err)
				}
				if here, there := parents(t, client, own), parents(t, client, namespace); len(here) != 1 || len(there) != 0 {
					t.Errorf("the parents are %v, and in the earlier place %v", here, there)
				}
			case "dry run":
				if err := o.sync(t.Context(), "web.sh", owned(namespace, away, 2)); err != nil {
					t.Error(err)
				}
				if there := parents(t, client, namespace); len(there) != 1 {
					t.Errorf("the parents are %v", there)
				}
			case "sync":
				if err := o.sync(t.Context(), "web.sh", owned(namespace, away, 2)); err != nil {
					t.Error(err)
				}
				if !strings.Contains(o.log.String(), "The record of a set is moved to the namespace of the operator") {
					t.Errorf("log %s", o.log)
				}
			}
		})
	}
}

// The parent of a set whose owner is gone is deleted when no member is left: by the process that knows the set, and by others at their
// start.
func TestParentsAreDeleted(t *testing.T) {
	cluster := testenv.Shared(t)
	client := testenv.Client(t, cluster.Config(t))
	log := slog.New(slog.DiscardHandler)
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			t.Parallel()
			own, namespace := cluster.Namespace(t), cluster.Namespace(t)
			o := newOperator(t, cluster.Config(t), own, own, false)
			if running {
				r := newRestorer(t, cluster, own)
				r.ignoreReports(t)
				o = r.operator
			}
			for _, name := range []string{"stays", "goes", "keeps"} {
				post(t, client, namespace, "configmaps", fmt.Sprintf(`{"metadata": {"name": %q}}`, name))
				claim := ""
				if name == "keeps" {
					claim = `, {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim}, spec: {accessModes: [ReadWriteOnce], ` +
						`resources: {requests: {storage: 1Mi}}}}`
				}
				if err := o.sync(t.Context(),
					"web.sh", fmt.Sprintf(`{operation: Sync, set: %[2]s, owner: {apiVersion: v1, kind: ConfigMap, namespace: %[1]s, name: %[2]s}, `+
						`objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: member-%[2]s}}%[3]s]}`, namespace, name, claim)); err != nil {
					t.Fatal(err)
				}
			}
			if all := parents(t, client, own); len(all) != 3 {
				t.Fatalf("the parents are %v", all)
			}
			cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "goes", "keeps")
			cluster.Kubectl(t, "-n", namespace, "wait", "--for=delete", "configmap/member-goes", "configmap/member-keeps", "--timeout=60s")
			if !running {
				if err := newOperator(t, cluster.Config(t), own, own, false).Sweep(t.Context(), log); err != nil {
					t.Fatal(err)
				}
			}
			left := func() []string {
				all := parents(t, client, own)
				slices.Sort(all)
				for i := range all {
					all[i] = all[i][:strings.LastIndexByte(all[i], '-')]
				}
				return all
			}
			want := []string{"shell-operator-keeps", "shell-operator-stays"}
			if !running && !slices.Equal(left(), want) {
				t.Errorf("the parents are %v", left())
			}
			await(t, "the parent is not deleted", func() bool { return slices.Equal(left(), want) })
		})
	}
}

// A record in the namespace of an owner, which its users can write, has no effect beyond that namespace, and is not in the lists that the
// operator makes by itself. Of a copy, and of one with more places than a Sync records, nothing is read.
func TestForgedRecords(t *testing.T) {
	cluster := testenv.Shared(t)
	client := testenv.Client(t, cluster.Config(t))
	own, namespace, victims := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
	post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
	o := newOperator(t, cluster.Config(t), own, own, false)
	if err := o.sync(t.Context(), "web.sh", `{operation: Sync, set: other, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: `+
		victims+`, name: member}}]}`); err != nil {
		t.Fatal(err)
	}
	post(t, client, victims, "configmaps", `{"metadata": {"name": "foreign"}}`)
	forged := o.namesOf(&Set{Namespace: namespace, Name: "web", Hook: "web.sh",
		Owner: &SetOwner{Kind: "ConfigMap", Namespace: namespace, Name: "owner"}})
	record := func(places string) string {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": forged.parent,
			"labels": map[string]string{idLabel: forged.id}, "annotations": map[string]string{
				setAnnotation: forged.set, ownerAnnotation: forged.owner, formatAnnotation: format, placesAnnotation: places,
				pruneKindsAnnotation: "Namespace", creatingAnnotation: "x",
			}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	post(t, client, namespace, "configmaps", record(`{"ConfigMap": ["`+victims+`", "`+own+`"], "Namespace": [""]}`))
	if sets, err := o.ListOwn(t.Context()); err != nil || len(sets) != 1 || sets[0].Name != "other" {
		t.Errorf("the operator's own list is %v, %v", sets, err)
	}
	before := configMaps(t, client, victims)
	document := owned(namespace, namespace, 1)
	if err := o.sync(t.Context(), "web.sh", document); err != nil {
		t.Error(err)
	}
	for name, is := range configMaps(t, client, victims) {
		if is.ResourceVersion != before[name].ResourceVersion {
			t.Errorf("%s was changed", name)
		}
	}
	if len(before) != 2 || len(configMaps(t, client, victims)) != 2 {
		t.Errorf("there were %d objects, and now %d", len(before), len(configMaps(t, client, victims)))
	}

	many := map[string][]string{}
	for i := range maxPlaces + 1 {
		many[fmt.Sprintf("Kind%d", i)] = []string{""}
	}
	text, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "-n", own, "delete", "configmap", forged.parent)
	post(t, client, namespace, "configmaps", record(string(text)))
	_ = o.traffic.String()
	if err := newOperator(t, cluster.Config(t), own, own, false).sync(t.Context(), "web.sh", document); err == nil ||
		!strings.Contains(err.Error(), "more than 2000 kinds and namespaces") {
		t.Errorf("error %v", err)
	}
}
