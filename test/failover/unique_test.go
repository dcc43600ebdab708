package failover

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The patch of spec.conversion makes the API server end the watches of the kind: snapshots are current all the same. Two objects that the
// hook must not admit together are created directly after all is registered, the second when other clients have seen the first; with LONG=1
// 50 times, beside busy processors.
func TestUniqueThroughStarts(t *testing.T) {
	cluster := testenv.Shared(t)
	ns, hooks := cluster.Namespace(t), t.TempDir()
	for _, name := range []string{"unique.sh", "convert.sh"} {
		testenv.Script(t, hooks, name, testenv.Testdata(t, name, "$NS", ns))
	}
	crd := "things." + ns + ".example.com"
	cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]s},
  spec: {group: %[1]s.example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [
  {name: v1, served: true, storage: true, schema: %[3]s},
  {name: v2, served: true, storage: false, schema: %[3]s}]}}`,
		ns, crd, "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"),
		"create", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", crd) })
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/"+crd, "--timeout=60s")

	client := testenv.Client(t, cluster.Config(t))
	const crds, group, probe = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/%s.example.com/v1/things", "probe"
	create := func(name, key string) error {
		request := client.Post().AbsPath(fmt.Sprintf(group, ns)).Body(fmt.Appendf(nil,
			`{"apiVersion": "%s.example.com/v1", "kind": "Thing", "metadata": {"name": %q}, "spec": {"key": %q}}`, ns, name, key))
		if key == probe {
			request.Param("dryRun", "All")
		}
		_, err := kube.Send(t.Context(), request)
		return err
	}
	// watched waits until a new watch has an object: on a busy machine the operator's has it a little after the answer to its creation.
	watched := func(name string) {
		for late := time.Now().Add(test.Patience); time.Now().Before(late); { // a change of the CRD ends the watch
			stream, err := client.Get().AbsPath(fmt.Sprintf(group, ns)).Param("watch", "1").Param("resourceVersion", "0").Stream(t.Context())
			for lines := bufio.NewScanner(stream); err == nil && lines.Scan(); {
				if strings.Contains(lines.Text(), fmt.Sprintf(`"name":%q`, name)) {
					_ = stream.Close()
					return
				}
			}
		}
		t.Fatalf("no watch has %s", name)
	}
	rounds := 1
	if test.Long() {
		rounds = 50
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
	}
	duplicates := 0
	for round := range rounds {
		op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Args: []string{
			"--validating-webhook-configuration-name", ns,
		}})
		op.UntilLog("Webhooks are registered")
		op.UntilLog("The CRD leads to the conversion hooks now")
		for late := time.Now().Add(test.Patience); ; { // the API server uses a registration a little later than it has it
			if err := create(probe, probe); err != nil && strings.Contains(err.Error(), "not unique") {
				break
			} else if err != nil || time.Now().After(late) {
				t.Fatalf("the probe: %v", err)
			}
		}
		if err := create("first", fmt.Sprint(round)); err != nil {
			t.Fatal(err)
		}
		watched("first")
		switch err := create("second", fmt.Sprint(round)); {
		case err == nil:
			duplicates++
			t.Errorf("round %d: both are admitted", round)
		case !strings.Contains(err.Error(), "not unique"):
			t.Fatal(err)
		}
		for _, name := range []string{"first", "second"} {
			_, _ = kube.Send(t.Context(), client.Delete().AbsPath(fmt.Sprintf(group, ns), name))
		}
		op.Signal(os.Interrupt)
		op.Wait()
		_, err := kube.Send(t.Context(), client.Patch(types.MergePatchType).AbsPath(crds, crd).
			Body([]byte(`{"spec": {"conversion": {"strategy": "None", "webhook": null}}}`)))
		if err != nil {
			t.Fatal(err)
		}
	}
	if duplicates > 0 {
		t.Errorf("%d of %d", duplicates, rounds)
	}
}
