package conversion

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const (
	nowLeads   = "The CRD leads to the conversion hooks now"
	againLeads = "Another client changed spec.conversion of the CRD"
)

// stanza is spec.conversion in short.
func (e *env) stanza() string {
	e.t.Helper()
	return e.Kubectl(e.t, "get", "crd", e.crd, "-o",
		"jsonpath={.spec.conversion.strategy} {.spec.conversion.webhook.conversionReviewVersions} {.spec.conversion.webhook.clientConfig.url} "+
			"{.spec.conversion.webhook.clientConfig.caBundle}")
}

// With the permissions of an old installation, which may only get and update, conversions work. One warning says what
// is missing, and with that rule alone everything works.
func TestPermissions(t *testing.T) {
	t.Parallel()
	e := begin(t)
	e.create()
	user := "operator-" + e.ns
	e.allow(user, "old", `{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, update]}`)
	asUser := func(c *rest.Config) { c.Impersonate.UserName = user }
	e.register(asUser)
	e.says(nowLeads, 1)
	if e.Kubectl(t, "get", "crd", e.crd, "-o", "jsonpath={.metadata.annotations}") != "" || !strings.HasPrefix(e.stanza(), "Webhook") {
		t.Error("the update went wrong")
	}
	e.renew()
	e.says("The CRD has the new certificates", 1)
	if got, want := e.stanza(), base64.StdEncoding.EncodeToString(e.currentBundle()); !strings.HasSuffix(got, " "+want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := strings.Count(e.log.String(), "No permission to watch"); n != 1 {
		t.Errorf("the log says %d times that there is no permission", n)
	}
	e.Kubectl(t, "delete", "clusterrolebinding/old-"+user)

	found := regexp.MustCompile(`the rule (\{.*?\})`).FindStringSubmatch(e.log.String())
	if found == nil {
		t.Fatal("the log names no rule")
	}
	e.allow(user, "new", strings.ReplaceAll(found[1], `\"`, `"`))
	generation := func() string { return e.Kubectl(t, "get", "crd", e.crd, "-o", "jsonpath={.metadata.generation}") }
	before := generation()
	e.register(asUser) // the first one tries to watch again in a minute
	e.says(nowLeads, 2)
	if after := generation(); after != before {
		t.Errorf("the CRD was written again: generation %s, then %s", before, after)
	}
	e.Kubectl(t, "patch", "crd", e.crd, "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	e.says(againLeads, 1)
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
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]q},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]q}, subjects: [{kind: User, name: %[3]q}]}
`, name, rule, user)
	e.KubectlInput(e.t, manifest, "create", "-f", "-")
	e.UntilRoles(e.t, user, "default", manifest)
}
