package patch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// between counts patches, and lets something happen before the first ones reach the API server.
type between struct {
	http.RoundTripper
	happens func()
	times   int
	patches int
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		if b.patches++; b.patches <= b.times {
			b.happens()
		}
	}
	return b.RoundTripper.RoundTrip(r)
}

// thing defines a kind whose conditions are a list of this type, with an object that has one of another writer.
func thing(t *testing.T, cluster *testenv.Cluster, list string) (namespace string) {
	t.Helper()
	namespace = cluster.Namespace(t)
	crd := testenv.Testdata(t, "thing.yaml", "$NS", namespace, "$LIST", list)
	cluster.KubectlInput(t, crd, "apply", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", "things."+namespace+".io") })
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/things."+namespace+".io", "--timeout=60s")
	create(t, cluster, namespace)
	return namespace
}

func create(t *testing.T, cluster *testenv.Cluster, namespace string) {
	cluster.KubectlInput(t,
		fmt.Sprintf(`{apiVersion: %[1]s.io/v1, kind: Thing, metadata: {name: one, namespace: %[1]s}, spec: {a: 1}}`, namespace),
		"create", "-f", "-")
}

// Conditions of other writers stay, in lists that the API server merges and in those that it replaces, also when they change at the same
// time.
func TestConditions(t *testing.T) {
	cluster := testenv.Shared(t)
	for name, list := range map[string]string{
		"map":    `x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type]`,
		"atomic": `x-kubernetes-list-type: atomic`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := thing(t, cluster, list)
			look := func(path string) string {
				return cluster.Kubectl(t, "-n", namespace, "get", "things."+namespace+".io", "one", "--show-managed-fields", "-o", "jsonpath="+path)
			}
			others := 0
			other := func() { // as a controller does that adds its own condition
				others++
				kind := fmt.Sprintf("Other%d", others)
				patch := `[{"op": "add", "path": "/status", "value": {"conditions": [{"type": "` + kind + `", "status": "True"}]}}]`
				if look("{.status.conditions}") != "" {
					patch = `[{"op": "add", "path": "/status/conditions/-", "value": {"type": "` + kind + `", "status": "True"}}]`
				}
				cluster.Kubectl(t, "-n", namespace, "patch", "things."+namespace+".io", "one", "--subresource=status", "--type=json", "-p", patch)
			}
			counted := &between{happens: other}
			a, _ := newApplier(t, cluster, func(o *Options) {
				config := rest.CopyConfig(cluster.Config(t))
				config.Wrap(func(next http.RoundTripper) http.RoundTripper { counted.RoundTripper = next; return counted })
				client, err := kube.NewClient(config)
				if err != nil {
					t.Fatal(err)
				}
				o.Client, o.Instance = client, "ops.shell-operator"
			})
			set := func(status, reason, message string) string {
				counted.patches = 0
				return apply(t, a, fmt.Sprintf(`{"operation": "Condition", "kind": "Thing", "apiVersion": "%[1]s.io/v1", "namespace": %[1]q,
					"name": "one", "type": "Ready", "status": %q, "reason": %q, "message": %q}`, namespace, status, reason, message))
			}
			const ready = `{.status.conditions[?(@.type=="Ready")]`
			counted.times = 3 // the fourth attempt succeeds
			if got := set("True", "Done", ""); got != "" || counted.patches != 4 {
				t.Errorf("%d patches, error %q", counted.patches, got)
			}
			if got := look("{.status.conditions[*].type}"); got != "Other1 Other2 Other3 Ready" {
				t.Error(got)
			}
			counted.times = 4
			if got := set("False", "Later", ""); !strings.Contains(got, "the object has been modified") || counted.patches != 4 {
				t.Errorf("%d patches, error %q", counted.patches, got)
			}
			counted.times = 0
			began := look(ready + ".lastTransitionTime}")
			if got := set("True", "Done", "another message"); got != "" {
				t.Error(got)
			}
			if got := look(ready+".lastTransitionTime}") + look(ready+"['message', 'observedGeneration']}"); got != began+"another message 1" {
				t.Errorf("%q, began at %s", got, began)
			}
			// Nothing but the time would change.
			if got := set("True", "Done", "another message"); got != "" || counted.patches != 0 {
				t.Errorf("%d patches, error %q", counted.patches, got)
			}
			if got := look("{.metadata.managedFields[*].manager}"); !strings.Contains(got,
				"shell-operator/ops.shell-operator/h.sh/condition/Ready") {
				t.Error(got)
			}
			// What the API server rejects is no conflict.
			if got := set("True", strings.Repeat("x", 21), ""); !strings.Contains(got, "reason") || counted.patches != 1 {
				t.Errorf("%d patches, error %q", counted.patches, got)
			}
			// Another object with its name is not changed.
			counted.times, counted.happens = 1, func() {
				cluster.Kubectl(t, "-n", namespace, "delete", "things."+namespace+".io", "one")
				create(t, cluster, namespace)
			}
			if got := set("True", "Done", ""); !strings.HasSuffix(got, `"one" not found`) || look("{.status}") != "" {
				t.Errorf("error %q", got)
			}
		})
	}
}
