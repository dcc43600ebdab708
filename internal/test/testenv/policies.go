package testenv

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Things is a CRD in two versions, with one object, in a namespace of its own.
type Things struct{ Namespace, Group, CRD string }

// NewThings creates Things. It removes them at the end, with the webhooks that have the name of the namespace.
func NewThings(t testing.TB, c *Cluster) Things {
	t.Helper()
	ns := c.Namespace(t)
	th := Things{ns, ns + ".example.com", "things." + ns + ".example.com"}
	version := `"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}`
	c.KubectlInput(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "`+th.CRD+`"},
  "spec": {"group": "`+th.Group+`", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [
    {"name": "v1", "served": true, "storage": true, `+version+`}, {"name": "v2", "served": true, "storage": false, `+version+`}]}}`,
		"create", "-f", "-")
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "validatingwebhookconfiguration/"+ns+"-hooks", "crd/"+th.CRD, "--ignore-not-found", "--wait=false")
	})
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/"+th.CRD)
	c.KubectlInput(t, `{"apiVersion": "`+th.Group+`/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "`+ns+`"}}`,
		"create", "-f", "-")
	return th
}

// ConfigurableHook writes a hook that prints its configuration, and otherwise does what the lines say.
func ConfigurableHook(t testing.TB, dir, name, config, lines string) {
	t.Helper()
	Script(t, dir, name, "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'END'\n"+config+"\nEND\nexit\nfi\n"+lines+"\n")
}

// ConvertingHook writes a hook that converts the Things, with more configuration, and lines for other bindings.
func (th Things) ConvertingHook(t testing.TB, dir, name, config, lines string) {
	t.Helper()
	ConfigurableHook(t, dir, name, config+`
kubernetesCustomResourceConversion:
- {name: convert, crdName: `+th.CRD+`, conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2, toVersion: v1}]}`,
		`if grep -q '"type":"Conversion"' "$BINDING_CONTEXT_PATH"; then
  grep -q '"toVersion":"[^"]*v1"' "$BINDING_CONTEXT_PATH" && to=1 || to=2
  sed -n 's|.*"objects":\(\[.*\]\).*|{"convertedObjects": \1}|; s|/v[12]"|/v'$to'"|p' "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH"
else
  `+lines+`
fi`)
}

// Policies are a random set of hooks. Each policy denies the ConfigMaps that have its name as a label, unless they are labelled as allowed.
type Policies struct {
	// Files have the policies a, b and c of the set.
	Files map[string]string
	// Starts are onStartup runs, by files: "fails" twice, or "denied" or "allowed" with the policy that reviews their change.
	Starts map[string]string
	// Snapshots has the files whose policies have a snapshot of Secrets.
	Snapshots map[string]bool
	// Converter is the file of a hook that converts Things, and denies new ones by a snapshot of them.
	Converter string
}

var policyFiles = []string{"x.sh", "y.sh", "z/x.sh"}

// DrawPolicies draws the set after another one.
func DrawPolicies(r *rand.Rand, before Policies, restart bool) Policies {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	p := Policies{map[string]string{}, map[string]string{}, map[string]bool{}, pick("convert.sh", "w/convert.sh")}
	for _, name := range []string{"a", "b", "c"} {
		if file := pick("", "x.sh", "y.sh", "z/x.sh"); file != "" {
			p.Files[name] = file
		}
	}
	for _, file := range policyFiles {
		p.Snapshots[file] = r.IntN(3) == 0
	}
	for _, file := range policyFiles {
		name := pick("a", "b", "c")
		owner, kept := p.Files[name]
		switch start := r.IntN(2) == 0; {
		// A change at a restart that is reviewed by a policy whose own onStartup run or snapshots come later is not drawn: no replica answers
		// for it, and its hook waits until the change succeeds. docs/reference/webhooks.md has this limit.
		case start && kept && (!restart || owner < file && !p.Snapshots[owner]):
			p.Starts[file] = "allowed " + name
		// Nor is a change that the earlier name of a renamed policy denies: the policy stays until its hook is ready.
		case start && !kept && before.Files[name] != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(p.Files)), func(new string) bool {
			return before.Files[new] == "" && p.Files[new] == before.Files[name]
		}):
			p.Starts[file] = "denied " + name
		case start:
			p.Starts[file] = "fails"
		}
	}
	return p
}

// Write writes the hooks, and makes the path a link to them. The counters of failing starts are beside it.
func (p Policies) Write(t testing.TB, th Things, link string, timeoutSeconds int) {
	t.Helper()
	dir, ns := t.TempDir(), th.Namespace
	snapshot := func(name, of string) string {
		return "\nkubernetes: [{name: " + name + ", " + of + ", namespace: {nameSelector: {matchNames: [" + ns +
			"]}}, executeHookOnEvent: [], executeHookOnSynchronization: false}]"
	}
	policy := func(name, rules, more string) string {
		return fmt.Sprintf("\n- {name: %s.%s.example.com, timeoutSeconds: %d, rules: [{%s, operations: [CREATE, UPDATE]}], "+
			"namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}%s}", name, ns, timeoutSeconds, rules, ns, more)
	}
	const denies = `name=$(grep -o '"binding":"[a-z]*[.]' "$BINDING_CONTEXT_PATH" | head -n 1 | tr -d '":.'); name=${name#binding}
grep -q '"allowed":"true"' "$BINDING_CONTEXT_PATH" && allowed=true || allowed=false
echo '{"allowed": '$allowed', "message": "denied by '$name'"}' >"$ADMISSION_RESPONSE_PATH"`
	for _, file := range policyFiles {
		config, lines, bindings, more, id := "configVersion: v1", "", "", "", strings.ReplaceAll(file, "/", "-")
		how, name, _ := strings.Cut(p.Starts[file], " ")
		if how == "fails" {
			counter := filepath.Join(filepath.Dir(link), id)
			lines = "n=$(cat " + counter + " 2>/dev/null || echo 0); echo $((n + 1)) >" + counter + "; [ $((n % 3)) = 2 ]"
		} else {
			lines = fmt.Sprintf(`echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s",
  "namespace": "%s", "labels": {"policy": "%s", "allowed": "%t"}}, "data": {"at": "'$(date +%%s%%N)'"}}}' >"$KUBERNETES_PATCH_PATH"`,
				id, ns, name, how == "allowed")
		}
		if how != "" {
			config += "\nonStartup: 1"
		}
		if p.Snapshots[file] {
			config, more = config+snapshot("secrets", "apiVersion: v1, kind: Secret"), ", includeSnapshotsFrom: [secrets]"
		}
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			if p.Files[name] == file {
				bindings += policy(name, `apiGroups: [""], apiVersions: [v1], resources: [configmaps]`,
					more+", labelSelector: {matchLabels: {policy: "+name+"}}")
			}
		}
		if bindings != "" {
			bindings = "\nkubernetesValidating:" + bindings
		}
		if bindings != "" || how != "" {
			ConfigurableHook(t, dir, file, config+bindings,
				`if grep -q '"binding":"onStartup"' "$BINDING_CONTEXT_PATH"; then `+lines+"; exit; fi\n"+denies)
		}
	}
	th.ConvertingHook(t, dir, p.Converter, "configVersion: v1"+snapshot("things", "apiVersion: "+th.Group+"/v2, kind: Thing")+
		"\nkubernetesValidating:"+policy("things", "apiGroups: ["+th.Group+"], apiVersions: [v2], resources: [things]",
		", includeSnapshotsFrom: [things]"), `grep -q '"snapshots":{"things":\[{' "$BINDING_CONTEXT_PATH" || exit 1
`+denies)
	if err := errors.Join(os.Symlink(dir, link+".new"), os.Rename(link+".new", link)); err != nil {
		t.Fatal(err)
	}
}
