package cert

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const secretName = "shell-operator-webhook-tls"

// client speaks to the API server, as another user if one is named.
func client(t *testing.T, kubeconfig, user string) rest.Interface {
	t.Helper()
	config := testenv.Config(t, kubeconfig)
	config.Impersonate.UserName = user
	return testenv.Client(t, config)
}

// replica is an InSecret Source in a namespace. Edits come after the defaults of the tests.
func replica(t *testing.T, c *testenv.Cluster, ns string, edits ...func(*SecretOptions)) (*Source, *recorder) {
	t.Helper()
	log, lines := record(t)
	o := SecretOptions{Client: client(t, c.Kubeconfig, ""), Namespace: ns, SecretName: secretName,
		Names: []string{"hooks." + ns + ".svc"}, Log: log}
	for _, edit := range edits {
		edit(&o)
	}
	s, err := InSecret(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s, lines
}

func as(client rest.Interface) func(*SecretOptions) {
	return func(o *SecretOptions) { o.Client = client }
}

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

// Without names there is the secret of paths only; certificates are added when a server needs them.
func TestSecretOfPathsOnly(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	a, _ := replica(t, c, ns, func(o *SecretOptions) { o.Names = nil })
	if got := keyOf(t, c, ns, pathKey); len(got) != 64 || a.Bundle() != nil || len(keyOf(t, c, ns, caKey)) > 0 {
		t.Errorf("the secret has %d bytes, the bundle is %q", len(got), a.Bundle())
	}
	b, _ := replica(t, c, ns)
	if b.Token("/a") != a.Token("/a") {
		t.Error("the replicas differ")
	}
	run(t, b)
	run(t, a)
	was := a.Token("/a")
	c.Kubectl(t, "-n", ns, "patch", "secret", secretName, "--type=json", "-p",
		`[{"op": "move", "from": "/data/path.secret", "path": "/data/path.previous"}]`)
	for _, s := range []*Source{a, b} {
		for changed := s.Changed(); s.Token("/a") == was; changed = s.Changed() {
			test.Receive(t, changed, "change of the secret")
		}
		if !s.Valid("/a", was) {
			t.Error("the token before is not valid")
		}
	}
}

// A Secret with another owner is left alone.
func TestForeignSecret(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", secretName, "--from-literal=password=x")
	log, _ := record(t)
	_, err := InSecret(t.Context(), SecretOptions{Client: client(t, c.Kubeconfig, ""), Namespace: ns, SecretName: secretName,
		Names: []string{"a"}, Log: log})
	if err == nil || !strings.Contains(err.Error(), `Secret "`+secretName+`" in namespace "`+ns+
		`" was not created by the operator and is not changed: choose another name`) {
		t.Errorf("error %v", err)
	}
}

// allow gives a user rules, each `resources…` as in a Role, and waits until they are active.
func allow(t *testing.T, c *testenv.Cluster, user, ns string, rules string) {
	t.Helper()
	c.KubectlInput(t, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: cert, namespace: %[1]s}, rules: [%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: cert, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cert}, subjects: [{kind: User, name: %[3]q}]}
`, ns, rules, user), "apply", "-f", "-")
	m := &inSecret{SecretOptions: SecretOptions{Client: client(t, c.Kubeconfig, user), Namespace: ns, SecretName: secretName}}
	for deadline := time.Now().Add(test.Patience); time.Now().Before(deadline); {
		// The API server does not report when a Role is active, so this polls.
		if _, err := m.read(t.Context()); !apierrors.IsForbidden(err) {
			return
		}
	}
	t.Fatal("the Role is not active")
}

// The rule that the warning names is enough, watching included.
func TestRuleIsEnough(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	user := "cert-" + ns
	_, rules, _ := strings.Cut(rule(ns, secretName), "the rules ")
	allow(t, c, user, ns, strings.ReplaceAll(rules, "} and {", "}, {"))
	a, lines := replica(t, c, ns, as(client(t, c.Kubeconfig, user)))
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

// Without permission to create Secrets, and to watch them, an empty one does.
func TestFewPermissions(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	user := "cert-" + ns
	c.Kubectl(t, "-n", ns, "create", "secret", "generic", secretName)
	allow(t, c, user, ns, `{apiGroups: [""], resources: ["secrets"], resourceNames: [`+secretName+`], verbs: ["get", "patch"]}`)
	a, lines := replica(t, c, ns, as(client(t, c.Kubeconfig, user)))
	if !slices.Equal(keyOf(t, c, ns, caKey), a.Bundle()) {
		t.Error("the Secret was not filled")
	}
	run(t, a)
	lines.says("No permission to watch")
	if n := lines.count(slog.LevelWarn); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// Without any permission each process creates certificates of its own, and one warning names the missing permission.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	a, lines := replica(t, c, ns, as(client(t, c.Kubeconfig, "cert-"+ns)))
	run(t, a)
	trusts(t, a.Bundle(), leaf(t, a), "hooks."+ns+".svc", time.Now())
	lines.says("correct for one replica only")
	if want := strings.ReplaceAll(rule(ns, secretName), `"`, `\"`); !strings.Contains(lines.String(), want) ||
		lines.count(slog.LevelWarn) != 1 {
		t.Errorf("not one warning with the rule %s", want)
	}
}

// The API server is away at the start, and later while the Secret changes.
func TestOutage(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	proxy.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), test.Patience)
	defer cancel()
	log, lines := record(t)
	o := SecretOptions{Client: client(t, kubeconfig, ""), Namespace: ns, SecretName: secretName, Names: []string{"a"}, Log: log}
	made := make(chan error)
	var s *Source
	go func() {
		var err error
		s, err = InSecret(ctx, o)
		made <- err
	}()
	lines.says("have to wait for the API server")
	proxy.Restore()
	if err := test.Receive(t, made, "Source"); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	proxy.Cut()
	lines.says("cannot be kept fresh")
	before := s.Bundle()
	c.Kubectl(t, "-n", ns, "patch", "secret", secretName, "--type=json", "-p", `[{"op": "remove", "path": "/data/ca.key"}]`)
	proxy.Restore()
	becomes(t, s, func(bundle []byte) bool { return !slices.Equal(bundle, before) })
}
