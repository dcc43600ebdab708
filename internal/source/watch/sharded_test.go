package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The API server with the feature gate selects exactly the objects that each shard keeps, in lists and watches, of built-in kinds and
// custom resources; without the gate it sends all, and each shard keeps its own.
func TestServerSelectsParts(t *testing.T) {
	t.Parallel()
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			t.Parallel()
			c := testenv.Shared(t)
			if gate {
				c = testenv.Own(t, "--feature-gates=ShardedListAndWatch=true")
			}
			ns := c.Namespace(t)
			group := ns + ".parts.example.com"
			crd := testenv.Testdata(t, "things-crd.yaml", "$GROUP", group)
			c.KubectlInput(t, crd, "create", "-f", "-")
			t.Cleanup(func() { c.KubectlInput(t, crd, "delete", "--wait=false", "-f", "-") })
			c.KubectlInput(t, crd, "wait", "--for=condition=Established", "--timeout=60s", "-f", "-")
			const objects = 24
			var list strings.Builder
			for i := range objects {
				fmt.Fprintf(&list, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d, namespace: %s, labels: {part: %[2]s}}}\n", i, ns)
				fmt.Fprintf(&list, "---\n{apiVersion: %s/v1, kind: Thing, metadata: {name: c%d, namespace: %s}}\n", group, i, ns)
			}
			c.KubectlInput(t, list.String(), "create", "-f", "-")
			client := testenv.Client(t, c.Config(t))
			maps, things := "/api/v1/namespaces/"+ns+"/configmaps", "/apis/"+group+"/v1/namespaces/"+ns+"/things"
			for _, path := range []string{maps, things} {
				for _, n := range []int{3, 4} {
					checkSelection(t, client, path, n, gate)
				}
			}
			for i := range 3 {
				w, err := New(Options{Config: c.Config(t), JQ: jq.NewCompiler(jq.Options{}), Sink: silence{}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = w.Run(ctx) })
				w.shard = shard.Shard{Index: i, Count: 3}
				h := bindings("parts", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Labels: "part=" + ns})
				h.Settings.ShardBy = shard.ByObject
				err = w.Enable(ctx, h, func(int, error) {})
				part := (shard.Shard{Index: i, Count: 3}).Part(shard.ByObject)
				var want, got []string
				for _, o := range listAll(t, client, maps, "") {
					if part.Has(o.uid, ns) && strings.HasPrefix(o.name, "c") {
						want = append(want, o.name)
					}
				}
				for o := range w.Snapshot(h, 0).Each {
					got = append(got, o.Name)
				}
				slices.Sort(want)
				if !slices.Equal(got, want) || err != nil {
					t.Errorf("shard %d sees %q, want %q, error %v", i, got, want, err)
				}
				stop()
				running.Wait()
			}
		})
	}
}

type listedObject struct{ name, uid string }

// checkSelection compares the parts of the API server with ours.
func checkSelection(t *testing.T, client rest.Interface, path string, n int, gate bool) {
	t.Helper()
	all := listAll(t, client, path, "")
	for i := range n {
		part := (shard.Shard{Index: i, Count: n}).Part(shard.ByObject)
		var want []listedObject
		for _, o := range all {
			if !gate || part.Has(o.uid, "") {
				want = append(want, o)
			}
		}
		if got := listAll(t, client, path, part.Selector()); !slices.Equal(got, want) {
			t.Errorf("%s, shard %d/%d: the API server selects %d objects, %d are of the part", path, i, n, len(got), len(want))
		}
	}
}

func listAll(t *testing.T, client rest.Interface, path, selector string) (all []listedObject) {
	t.Helper()
	req := client.Get().AbsPath(path)
	if selector != "" {
		req = req.Param("shardSelector", selector)
	}
	raw, err := req.DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name, UID string } }
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		all = append(all, listedObject{item.Metadata.Name, item.Metadata.UID})
	}
	return all
}
