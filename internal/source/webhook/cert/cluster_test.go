package cert

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const secretName = "shell-operator-webhook-tls"

// keyOf is what is under a key of the Secret.
func keyOf(t *testing.T, c *testenv.Cluster, ns, key string) []byte {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(c.Kubectl(t, "-n", ns, "get", "secret", secretName, "-o",
		`jsonpath={.data.`+strings.ReplaceAll(key, ".", `\.`)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The rule that the warning names is enough, watching included.
func TestRuleIsEnough(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	user := "cert-" + ns
	_, rules, _ := strings.Cut(rule(ns, secretName), "the rules ")
	manifest := fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: cert, namespace: %[1]s}, rules: [%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: cert, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cert}, subjects: [{kind: User, name: %[3]q}]}
`, ns, strings.ReplaceAll(rules, "} and {", "}, {"), user)
	c.KubectlInput(t, manifest, "apply", "-f", "-")
	c.UntilRoles(t, user, ns, manifest)
	config := c.Config(t)
	config.Impersonate.UserName = user
	log, lines := record(t)
	a, err := InSecret(t.Context(), SecretOptions{Client: testenv.Client(t, config), Namespace: ns, SecretName: secretName,
		Names: []string{"hooks." + ns + ".svc"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	run(t, a)
	before := a.Bundle()
	c.Kubectl(t, "-n", ns, "patch", "secret", secretName, "--type=json", "-p", `[{"op": "remove", "path": "/data/ca.key"}]`)
	becomes(t, a, func(bundle []byte) bool { return !slices.Equal(bundle, before) })
	if !slices.Equal(keyOf(t, c, ns, caKey), a.Bundle()) {
		t.Error("the Secret has another CA than the replica that may write it")
	}
	c.Kubectl(t, "-n", ns, "delete", "secret", secretName)
	c.Kubectl(t, "-n", ns, "wait", "--for=create", "--timeout="+test.Patience.String(), "secret/"+secretName)
	lines.says("they were deleted")
	if strings.Contains(lines.String(), "orbidden") {
		t.Error("something was forbidden")
	}
}
