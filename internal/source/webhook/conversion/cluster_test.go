package conversion

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
)

const (
	upAndDown = "v1alpha1>v1beta1 v1beta1>v1alpha1"
	upAndTop  = "v1beta1>v1 v1>v1beta1"

	nowLeads    = "The CRD leads to the conversion hooks now"
	againLeads  = "Another client changed spec.conversion of the CRD"
	alreadyWell = "The CRD leads to the conversion hooks already"
)

// A chain over two hooks: objects are written and read in all versions.
func TestChain(t *testing.T) {
	t.Parallel()
	e := begin(t, upAndDown, upAndTop)
	e.create()
	e.register()
	e.says(nowLeads, 1)
	e.ready()
	versions := []string{"v1alpha1", "v1beta1", "v1"}
	for _, written := range versions {
		e.KubectlInput(t, e.job(written, written, "one"), "apply", "-f", "-")
		e.KubectlInput(t, e.job(written, written, "two"), "apply", "-f", "-")
		e.KubectlInput(t, e.job(written, "server-side-"+written, "one"), "apply", "--server-side", "-f", "-")
		e.KubectlInput(t, e.job("v1", "server-side-"+written, "two"), "apply", "--server-side", "--force-conflicts", "-f", "-")
		for _, read := range versions {
			for _, name := range []string{written, "server-side-" + written} {
				if got := e.get(read, name, ".spec."+field("/"+read)); got != "two" {
					t.Errorf("%s written in %s, read in %s: got %q", name, written, read, got)
				}
			}
		}
	}
	if got := e.Kubectl(t, "get", "-n", e.ns, "jobs.v1alpha1."+e.group, "-o",
		"jsonpath={.items[*].spec.alpha}"); got != "two two two two two two" {
		t.Errorf("the list: got %q", got)
	}
	e.with(func() {
		for _, s := range []string{"v1alpha1>v1beta1", "v1beta1>v1", "v1>v1beta1", "v1beta1>v1alpha1"} {
			from, to, _ := strings.Cut(s, ">")
			if e.steps[hook.ConversionStep{From: from, To: to}] == 0 {
				t.Errorf("no hook was asked for the step %s", s)
			}
		}
	})
	// A watch in an old version sees objects in it.
	if out := e.Kubectl(t, "wait", "-n", e.ns, "jobs.v1alpha1."+e.group, "v1", "--for=jsonpath={.spec.alpha}=two"); !strings.Contains(out,
		"condition met") {
		t.Error(out)
	}
}

// What goes wrong reaches the user's terminal.
func TestFailures(t *testing.T) {
	t.Parallel()
	e := begin(t, upAndTop)
	e.create()
	e.register()
	e.says(nowLeads, 1)
	e.ready()
	e.KubectlInput(t, e.job("v1", "a", "x")+e.job("v1", "b", "x"), "apply", "-f", "-")

	e.with(func() {
		e.convert = func(hook.ConversionStep, map[string]any) error { return errors.New(`"x" is not a time of day`) }
	})
	e.refused(fmt.Sprintf(`conversion webhook for %s/v1, Kind=Job failed: "x" is not a time of day`, e.group), "", "get",
		"jobs.v1beta1."+e.group, "a")
	e.refused(`failed: "x" is not a time of day`, e.job("v1beta1", "c", "x"), "create", "-f", "-")
	e.with(func() { e.convert = renameField })

	e.with(func() { e.lose = true })
	e.refused(`Hook failed to convert to `+e.group+`/v1beta1: hook "hook-1", binding "b", step from v1 to v1beta1: it returned 0 objects `+
		`for 1: convertedObjects must have each object once, in the same order`,
		"", "get", "jobs.v1beta1."+e.group, "a")
	e.with(func() { e.lose = false })

	e.with(func() {
		e.convert = func(_ hook.ConversionStep, o map[string]any) error {
			delete(o["metadata"].(map[string]any), "uid")
			return nil
		}
	})
	e.refused(`) as another one (Job `+e.ns+`/a, uid ""): the order of objects, their kinds, names, namespaces and uids must not change`, "",
		"get", "jobs.v1beta1."+e.group, "a")
	e.with(func() { e.convert = renameField })

	e.refused(`Conversion `+e.crd+` to `+e.group+`/v1alpha1 was not successful: no hook converts "`+e.group+`/v1" to "`+e.group+`/v1alpha1"`,
		"", "get", "jobs.v1alpha1."+e.group, "a")
	if got := e.get("v1beta1", "a", ".spec.beta"); got != "x" {
		t.Errorf("after all that: got %q", got)
	}
}

// A CRD that comes after the start is registered, also when it goes and comes again, and edits of it are put back.
func TestReconcile(t *testing.T) {
	t.Parallel()
	e := begin(t, upAndTop)
	e.register()
	e.says("Waiting for the CRD", 1)
	e.create()
	e.says(nowLeads, 1)
	e.ready()

	for i, edit := range []string{
		`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`,
		`{"spec":{"conversion":{"webhook":{"conversionReviewVersions":["v1beta1"]}}}}`,
		`{"spec":{"conversion":{"webhook":{"clientConfig":{"url":null,"service":{"name":"a","namespace":"b"}}}}}}`,
	} {
		e.Kubectl(t, "patch", "crd", e.crd, "--type=merge", "-p", edit)
		e.says(againLeads, i+1)
		want := fmt.Sprintf(`Webhook ["v1","v1beta1"] %s/%s %s`, e.url, e.crd, base64.StdEncoding.EncodeToString(e.currentBundle()))
		if got := e.stanza(); got != want {
			t.Errorf("after the edit %s: got %s, want %s", edit, got, want)
		}
	}
	// Edits of other fields are ignored.
	e.Kubectl(t, "annotate", "crd", e.crd, "a=b")

	e.Kubectl(t, "delete", "crd", e.crd)
	e.says("Waiting for the CRD", 2)
	e.create()
	e.says(nowLeads, 2)
	e.ready()
	if n := strings.Count(e.log.String(), againLeads); n != 3 {
		t.Errorf("the log reports %d times that a client changed spec.conversion", n)
	}
}

// stanza is spec.conversion in short.
func (e *env) stanza() string {
	e.t.Helper()
	return e.Kubectl(e.t, "get", "crd", e.crd, "-o",
		"jsonpath={.spec.conversion.strategy} {.spec.conversion.webhook.conversionReviewVersions} {.spec.conversion.webhook.clientConfig.url} "+
			"{.spec.conversion.webhook.clientConfig.caBundle}")
}

// A new certificate reaches the CRD, and the next operator that starts has nothing to change.
func TestNewBundle(t *testing.T) {
	t.Parallel()
	e := begin(t, upAndTop)
	e.create()
	e.register()
	e.says(nowLeads, 1)
	e.renew()
	e.says("The CRD has the new certificates", 1)
	if got, want := e.stanza(), base64.StdEncoding.EncodeToString(e.currentBundle()); !strings.HasSuffix(got, " "+want) {
		t.Errorf("got %s, want %s", got, want)
	}
	e.ready()
	before := e.Kubectl(t, "get", "crd", e.crd, "-o", "jsonpath={.metadata.generation}")
	e.register()
	e.says(alreadyWell, 1)
	if after := e.Kubectl(t, "get", "crd", e.crd, "-o", "jsonpath={.metadata.generation}"); after != before {
		t.Errorf("the CRD was written again: generation %s, then %s", before, after)
	}
}

// With the permissions of an old installation, which may only get and update, conversions work. One warning says what
// is missing, and with that rule alone everything works.
func TestPermissions(t *testing.T) {
	t.Parallel()
	e := begin(t, upAndTop)
	e.create()
	user := "operator-" + e.ns
	e.allow(user, "old", `{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, update]}`)
	e.register(func(c *rest.Config) { c.Impersonate.UserName = user })
	e.says(nowLeads, 1)
	e.ready()
	if e.Kubectl(t, "get", "crd", e.crd, "-o", "jsonpath={.metadata.annotations}") != "" || !strings.HasPrefix(e.stanza(), "Webhook") {
		t.Error("the update went wrong")
	}
	e.renew()
	e.says("The CRD has the new certificates", 1)
	if n := strings.Count(e.log.String(), "No permission"); n != 1 {
		t.Errorf("the log says %d times that there is no permission", n)
	}
	e.Kubectl(t, "delete", "clusterrolebinding/old-"+user)

	found := regexp.MustCompile(`the rule (\{.*?\})`).FindStringSubmatch(e.log.String())
	if found == nil {
		t.Fatal("the log names no rule")
	}
	e.allow(user, "new", strings.ReplaceAll(found[1], `\"`, `"`))
	e.Kubectl(t, "patch", "crd", e.crd, "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	e.says(againLeads, 1)
	e.ready()
}

// allow gives a user the permissions of a rule.
func (e *env) allow(user, name, rule string) {
	e.t.Helper()
	name += "-" + user
	e.t.Cleanup(func() {
		e.Kubectl(e.t, "delete", "clusterrole/"+name, "clusterrolebinding/"+name, "--ignore-not-found")
	})
	manifest := fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]q}, rules: [%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]q}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]q}, subjects: [{kind: User, name: %[3]q}]}
`, name, rule, user)
	e.KubectlInput(e.t, manifest, "create", "-f", "-")
	e.UntilRoles(e.t, user, "default", manifest)
}
