package failover

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// watched waits until a new watch has an object: on a busy machine the operator's has it a little after the answer to its creation.
func (k *things) watched(name string) {
	k.t.Helper()
	for late := time.Now().Add(test.Patience); time.Now().Before(late); { // a change of the CRD ends the watch
		stream, err := k.client.Get().AbsPath(k.path).Param("watch", "1").Param("resourceVersion", "0").Stream(k.t.Context())
		for lines := bufio.NewScanner(stream); err == nil && lines.Scan(); {
			if strings.Contains(lines.Text(), fmt.Sprintf(`"name":%q`, name)) {
				_ = stream.Close()
				return
			}
		}
	}
	k.t.Fatalf("no watch has %s", name)
}

// The patch of spec.conversion makes the API server end the watches of the kind: snapshots are current all the same. Two objects that the
// hook must not admit together are created directly after all is registered, the second when other clients have seen the first: 50 times,
// beside busy processors.
func TestUniqueThroughStarts(t *testing.T) {
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if !test.Long() {
		t.Skip("the watch of another client says little of the operator's beside busy processors: make long")
	}
	const rounds = 50
	k := newThings(t)
	done := make(chan struct{})
	defer close(done)
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for busy := true; busy; {
				select {
				case <-done:
					busy = false
				default:
					runtime.Gosched()
				}
			}
		}()
	}
	duplicates := 0
	for round := range rounds {
		op := k.start(k.cluster.Kubeconfig)
		if err := k.create("first", fmt.Sprint(round)); err != nil {
			t.Fatal(err)
		}
		k.watched("first")
		switch err := k.create("second", fmt.Sprint(round)); {
		case err == nil:
			duplicates++
			t.Errorf("round %d: both are admitted", round)
		case !strings.Contains(err.Error(), "not unique"):
			t.Fatal(err)
		}
		for _, name := range []string{"first", "second"} {
			_, _ = kube.Send(t.Context(), k.client.Delete().AbsPath(k.path, name))
		}
		op.Signal(os.Interrupt)
		op.Wait()
		_, err := kube.Send(t.Context(), k.client.Patch(types.MergePatchType).AbsPath(crds, k.crd).
			Body([]byte(`{"spec": {"conversion": {"strategy": "None", "webhook": null}}}`)))
		if err != nil {
			t.Fatal(err)
		}
	}
	if duplicates > 0 {
		t.Errorf("%d of %d", duplicates, rounds)
	}
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
