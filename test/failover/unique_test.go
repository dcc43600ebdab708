package failover

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// things are a kind with two hooks: one denies an object whose key another one has, by a snapshot, the other one converts the kind.
type things struct {
	t         *testing.T
	cluster   *testenv.Cluster
	client    rest.Interface
	ns, dir   string
	path, crd string
}

func newThings(t *testing.T) *things {
	cluster := testenv.Shared(t)
	k := &things{t: t, cluster: cluster, client: testenv.Client(t, cluster.Config(t)), ns: cluster.Namespace(t), dir: t.TempDir()}
	k.path, k.crd = fmt.Sprintf("/apis/%s.example.com/v1/things", k.ns), "things."+k.ns+".example.com"
	for _, name := range []string{"unique.sh", "convert.sh"} {
		testenv.Script(t, k.dir, name, testenv.Testdata(t, name, "$NS", k.ns))
	}
	cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]s},
  spec: {group: %[1]s.example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [
  {name: v1, served: true, storage: true, schema: %[3]s},
  {name: v2, served: true, storage: false, schema: %[3]s}]}}`,
		k.ns, k.crd, "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"),
		"create", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", k.crd) })
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/"+k.crd, "--timeout=60s")
	return k
}

// start starts an operator, and returns when it has registered everything, and the API server uses that.
func (k *things) start(kubeconfig string) *testenv.Operator {
	k.t.Helper()
	op := testenv.Start(k.t, testenv.OperatorOptions{HooksDir: k.dir, Kubeconfig: kubeconfig, Args: []string{
		"--validating-webhook-configuration-name", k.ns,
	}})
	op.UntilLog("Webhooks are registered")
	op.UntilLog("The CRD leads to the conversion hooks now")
	for late := time.Now().Add(test.Patience); ; {
		if err := k.create(probe, probe); err != nil && strings.Contains(err.Error(), "not unique") {
			return op
		} else if err != nil || time.Now().After(late) {
			k.t.Fatalf("the probe: %v", err)
		}
	}
}

// probe is a key that is never unique. Such an object is not created.
const probe = "probe"

func (k *things) create(name, key string) error {
	request := k.client.Post().AbsPath(k.path).Body(fmt.Appendf(nil,
		`{"apiVersion": "%s.example.com/v1", "kind": "Thing", "metadata": {"name": %q}, "spec": {"key": %q}}`, k.ns, name, key))
	if key == probe {
		request.Param("dryRun", "All")
	}
	_, err := kube.Send(k.t.Context(), request)
	return err
}

// A watch that ends because the operator has patched spec.conversion is waited for by reviews: the API server may answer the next one a
// second later.
func TestUniqueAfterTheOwnPatch(t *testing.T) {
	k := newThings(t)
	gateway, kubeconfig := testenv.NewGateway(t, k.cluster.Kubeconfig, 1)
	watched, watch := context.WithCancel(t.Context())
	patched, patch := context.WithCancel(t.Context())
	again, watchAgain := context.WithCancel(t.Context())
	gateway.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch isWatch := r.URL.Query().Get("watch") != ""; {
		case isWatch && r.URL.Path == k.path:
			if patched.Err() != nil {
				time.Sleep(time.Second) // as the API server does
				watchAgain()
			}
			watch()
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, k.crd):
			<-watched.Done()
			defer patch()
		}
		next.ServeHTTP(w, r)
	})
	if k.start(kubeconfig); again.Err() == nil {
		t.Error("the hook has reviewed an object before the watch that follows the patch")
	}
}
