package examples

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestConfigChecksum(t *testing.T) { configChecksum(prepare(t, "config-checksum")) }

func configChecksum(e *example) {
	t := e.t
	e.start()
	e.operator.UntilLog("Unlock kubernetes.Event tasks")

	// Five Deployments, each with its ConfigMap, and one that has none. The first one has two.
	apps := []string{"app-0", "app-1", "app-2", "app-3", "app-4"}
	var objects strings.Builder
	for _, app := range apps {
		objects.WriteString(deployment(app) + configMap(app, app, "first"))
	}
	e.input(objects.String()+configMap("app-0-more", "app-0", "first")+deployment("other")+configMap("other", "", "first"),
		"create", "-f", "-")
	e.until("a checksum in five Deployments", func() bool { return len(e.rolledOut()) == len(apps) })
	first := e.settled()
	if _, ok := first["other"]; ok {
		t.Error("a Deployment without a ConfigMap has got a checksum")
	}

	// changed waits until exactly the Deployments of these apps have another checksum, each rolled out once.
	changed := func(before map[string]rollout, what string, apps ...string) map[string]rollout {
		t.Helper()
		e.until(what, func() bool {
			now := e.rolledOut()
			return !slices.ContainsFunc(apps, func(app string) bool { return now[app].checksum == before[app].checksum })
		})
		after := e.settled()
		for app := range before {
			want := before[app].generation
			if slices.Contains(apps, app) {
				want++
			}
			if after[app].generation != want {
				t.Errorf("%s: generation %d of %s, want %d", what, after[app].generation, app, want)
			}
		}
		return after
	}

	var configs strings.Builder
	for _, app := range apps {
		configs.WriteString(configMap(app, app, "second"))
	}
	e.input(configs.String(), "apply", "-f", "-")
	second := changed(first, "five changes in one burst", apps...)
	for _, app := range apps {
		if sets := e.replicaSets(app); !slices.Contains(sets, first[app].checksum) || !slices.Contains(sets, second[app].checksum) {
			t.Errorf("the ReplicaSets of %s have the checksums %q", app, sets)
		}
	}

	// Labels, annotations and the same data again do not count. The last change shows that the hook had time for them.
	e.kubectl("label", "configmap", "app-1", "tier=web")
	e.kubectl("annotate", "configmap", "app-1", "example.com/note=seen")
	e.kubectl("label", "deployment", "app-1", "tier=web")
	e.input(configMap("app-2", "app-2", "second"), "apply", "-f", "-")
	e.kubectl("patch", "configmap", "other", "--type=merge", "-p", `{"data":{"settings":"second"}}`)
	e.kubectl("patch", "configmap", "app-0-more", "--type=merge", "-p", `{"binaryData":{"blob":"AAECAw=="}}`)
	third := changed(second, "a change of the second ConfigMap", "app-0")

	// Data that goes back brings the old checksum back, and a removed annotation is restored.
	e.kubectl("patch", "configmap", "app-0-more", "--type=merge", "-p", `{"binaryData":null}`)
	fourth := changed(third, "the data as it was", "app-0")
	if fourth["app-0"].checksum != second["app-0"].checksum {
		t.Error("the same data have another checksum")
	}
	e.kubectl("delete", "configmap", "app-0-more")
	fifth := changed(fourth, "one ConfigMap less", "app-0")
	e.kubectl("patch", "deployment", "app-4", "--type=merge", "-p", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	e.until("the removed checksum", func() bool { return e.rolledOut()["app-4"].checksum == fifth["app-4"].checksum })
	if e.failures() != 0 {
		t.Errorf("%d runs have failed", e.failures())
	}

	// A second start applies only what has changed meanwhile.
	before := e.settled()
	e.restart()
	e.operator.UntilLog("Hook executed successfully")
	if after := e.settled(); !maps.Equal(after, before) {
		t.Errorf("the second start has changed something: %v, before %v", after, before)
	}
	e.stop()
	e.input(configMap("app-3", "app-3", "third"), "apply", "-f", "-")
	e.start()
	before = changed(before, "what had changed while the operator was away", "app-3")

	// Killed half-way: each Deployment is rolled out, and once only.
	e.stop()
	e.input(strings.ReplaceAll(configs.String(), "second", "fourth"), "apply", "-f", "-")
	e.start(killedOnce(t, "jq", "sha256sum"), retryMinDelay, retryMaxDelay)
	changed(before, "five changes, after the hook was killed", apps...)
	if e.failures() != 2 {
		t.Errorf("%d runs have failed, not 2", e.failures())
	}
}

func deployment(name string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: main, image: busybox}]}
`, name)
}

// configMap has the label that names a Deployment, unless it is of none.
func configMap(name, of, settings string) string {
	labels := ""
	if of != "" {
		labels = "example.com/config-of: " + of
	}
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {%s}}\ndata: {settings: %s}\n", name,
		labels, settings)
}

// rollout is what the hook changes in a Deployment, and what the API server counts of it.
type rollout struct {
	checksum   string
	generation int
}

// rolledOut returns the Deployments that have a checksum, by name.
func (e *example) rolledOut() map[string]rollout {
	e.t.Helper()
	found := map[string]rollout{}
	for _, d := range e.templates("deployments") {
		if sum := d.Spec.Template.Metadata.Annotations[checksum]; sum != "" {
			found[d.Metadata.Name] = rollout{sum, d.Metadata.Generation}
		}
	}
	return found
}

// settled is rolledOut after the Deployments' controller has created the ReplicaSets.
func (e *example) settled() map[string]rollout {
	e.t.Helper()
	waiting := map[int][]string{}
	for _, d := range e.templates("deployments") {
		if n := d.Metadata.Generation; n != d.Status.ObservedGeneration {
			waiting[n] = append(waiting[n], "deployment/"+d.Metadata.Name)
		}
	}
	for n, names := range waiting {
		e.kubectl(append([]string{"wait", fmt.Sprintf("--for=jsonpath={.status.observedGeneration}=%d", n), "--timeout=60s"}, names...)...)
	}
	return e.rolledOut()
}

// replicaSets returns the checksums in an app's ReplicaSets.
func (e *example) replicaSets(app string) []string {
	e.t.Helper()
	var sums []string
	for _, set := range e.templates("replicasets", "-l", "app="+app) {
		sums = append(sums, set.Spec.Template.Metadata.Annotations[checksum])
	}
	return sums
}

const checksum = "example.com/config-checksum"

type template struct {
	Metadata struct {
		Name       string
		Generation int
	}
	Spec struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
	Status struct{ ObservedGeneration int }
}

func (e *example) templates(kind string, args ...string) []template {
	e.t.Helper()
	var list struct{ Items []template }
	if err := json.Unmarshal([]byte(e.kubectl(append([]string{"get", kind, "-o", "json"}, args...)...)), &list); err != nil {
		e.t.Fatal(err)
	}
	return list.Items
}
