package security

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const things = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {text: {type: string}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {text: {type: string}}}}}
`

const convertsThings = `#!/usr/bin/env python3
import json, os, sys, time
if sys.argv[1:] == ['--config']:
    print('{"configVersion": "v1", "kubernetesCustomResourceConversion": [{"name": "c", "crdName": "things.GROUP", "conversions": [{"fromVersion": "v1", "toVersion": "v2"}, {"fromVersion": "v2", "toVersion": "v1"}]}]}')
    sys.exit()
with open(os.environ['BINDING_CONTEXT_PATH']) as f:
    context = json.load(f)[0]
objects = context['review']['request']['objects']
while len(objects) > 10 and not os.path.exists(os.environ['RELEASE']):
    time.sleep(0.05)
for o in objects:
    o['apiVersion'] = context['review']['request']['desiredAPIVersion']
with open(os.environ['CONVERSION_RESPONSE_PATH'], 'w') as f:
    json.dump({'convertedObjects': objects}, f)
`

// Line "large lists": a list that the API server sends as one review above the budget of bodies is converted within the limit of memory, and other
// reviews are answered while it is.
func TestLargeKnownConversion(t *testing.T) {
	const number, size = 68, 1_300_000
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	group := ns + ".example.com"
	cluster.KubectlInput(t, strings.ReplaceAll(things, "GROUP", group), "create", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", "things."+group, "--wait=false") })
	cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/things."+group)
	client := testenv.Client(t, cluster.Config(t))
	path := func(version, rest string) string {
		return "/apis/" + group + "/" + version + "/namespaces/" + ns + "/things" + rest
	}
	text := strings.Repeat("x", size)
	for i := range number {
		body := fmt.Sprintf(`{"apiVersion": "%s/v1", "kind": "Thing", "metadata": {"name": "t%d"}, "text": %q}`, group, i, text)
		if err := client.Post().AbsPath(path("v1", "")).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	release := filepath.Join(t.TempDir(), "release")
	op := testenv.Start(t, testenv.OperatorOptions{
		Binary: testenv.Released(t), HooksDir: hooks(t, map[string]string{"convert.py": strings.ReplaceAll(convertsThings, "GROUP", group)}), Kubeconfig: cluster.Kubeconfig,
		Env: []string{"RELEASE=" + release},
	})
	get := func(rest string) ([]byte, error) {
		return client.Get().AbsPath(path("v2", rest)).SetHeader("Accept", "application/json").Do(t.Context()).Raw()
	}
	// The API server applies the registration a moment later.
	for late := time.Now().Add(testenv.Patience); ; {
		one, err := get("/t0")
		if converted := false; err == nil {
			for _, r := range op.Records() {
				converted = converted || r.Has("Handle kubernetesCustomResourceConversion event for crd")
			}
			if converted {
				break
			}
		}
		if time.Now().After(late) {
			t.Fatalf("no conversion: %.300s (%v)", one, err)
		}
	}
	before := peak(t, op.Pid())
	listed := make(chan error, 1)
	started := time.Now()
	go func() {
		text, err := get("")
		var list struct {
			Items []struct{ APIVersion, Text string }
		}
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err == nil && len(list.Items) != number {
			err = fmt.Errorf("the list has %d objects", len(list.Items))
		}
		for _, o := range list.Items {
			if o.APIVersion != group+"/v2" || len(o.Text) != size {
				err = fmt.Errorf("an object in %s of %d bytes", o.APIVersion, len(o.Text))
			}
		}
		listed <- err
	}()
	op.UntilLog("Handle kubernetesCustomResourceConversion event for crd", "len", strconv.Itoa(number))
	for range 3 {
		if _, err := get("/t1"); err != nil {
			t.Errorf("a single object: %v", err)
		}
	}
	single := time.Since(started)
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-listed; err != nil {
		t.Errorf("the list: %v", err)
	}
	after := peak(t, op.Pid())
	t.Logf("a review of %d MiB in %s, single objects after %s; peak %d MiB before, %d MiB after", number*size>>20, time.Since(started).Round(time.Millisecond), single.Round(time.Millisecond), before>>20, after>>20)
	if after > 900<<20 {
		t.Errorf("the peak is %d MiB, more than the limit of the chart allows", after>>20)
	}
}
