package examples

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestTwoTeams runs the operators of two releases beside each other, each with the Roles and variables of its release and no others:
// what a team may read, write and register.
func TestTwoTeams(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint := cluster.Namespace(t), cluster.Namespace(t)
	dir := copyOf(t, "two-teams", strings.NewReplacer("shop", shop, "paint", paint, "webhooks-of-teams", "webhooks-of-"+shop).Replace)
	policy := filepath.Join(dir, "manifests", "webhooks.yaml")
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "--wait=false", "-f", policy) })
	cluster.Kubectl(t, "apply", "-f", policy)
	ofShop, ofPaint := install(t, cluster, dir, shop), install(t, cluster, dir, paint)
	cluster.Kubectl(t, "apply", "-f", filepath.Join(dir, "tests", "fixtures", "products.yaml"))

	// Not in the example: a hook of one team that deletes an object of the other one, and registers a webhook for all namespaces.
	vandal := filepath.Join(dir, paint, "hooks", "vandal.sh")
	if err := os.WriteFile(vandal, []byte(`#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: vandal}]}'; exit; fi
echo '{operation: Delete, apiVersion: v1, kind: ConfigMap, namespace: `+shop+`, name: catalog}' >"$KUBERNETES_PATCH_PATH"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	one, other := ofShop.start(), ofPaint.start()
	becomes := func(e *example, name, path, want string) {
		t.Helper()
		e.until(want, func() bool {
			return e.kubectl("get", "configmap", name, "--ignore-not-found", "-o", "jsonpath="+path) == want
		})
	}
	becomes(one, "catalog", "{.data.cake},{.data.tea}", "5,3")
	other.operator.UntilLog("Enable Kubernetes binding for hook failed", "hook", "poster.sh")
	if why := other.operator.Ask("why", "poster.sh"); !strings.Contains(why, `the rule {apiGroups: [""], resources: ["configmaps"], verbs:`) {
		t.Errorf("why names no rule:\n%s", why)
	}
	cluster.Kubectl(t, "apply", "-f", filepath.Join(dir, "manifests", "grant.yaml"))
	becomes(other, "poster", "{.data.text}", "cake: only 5!\ntea: only 3!")
	failed := other.operator.UntilLog("Hook failed. Will retry after delay.", "hook", "vandal.sh").Fields["error"]
	if !strings.Contains(failed, account(paint)) || !strings.Contains(failed, "cannot delete resource") {
		t.Errorf("the error is %q", failed)
	}

	one.operator.UntilLog("Webhooks are registered", "kind", "ValidatingWebhookConfiguration")
	one.patient("the first denial", func() bool {
		out, err := one.try("", "create", "--dry-run=server", "-f", filepath.Join(dir, "tests", "fixtures", "soap.yaml"))
		if err != nil && !strings.Contains(out, "the price of a product is a number, not 'a lot'") {
			t.Fatalf("the first denial is %s", out)
		}
		return err != nil
	})
	one.kubectl("create", "-f", filepath.Join(dir, "tests", "fixtures", "cheese.yaml"))
	other.kubectl("create", "configmap", "soap", "--from-literal=price=a lot")
	becomes(one, "catalog", "{.data.cheese}", "9")
	teamsRegister(t, cluster, shop)
}

// TestTeamsPage compares the values and the policy of the page with the values and the policy of the example.
func TestTeamsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/give-a-team-its-own-hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"shop/values.yaml", "manifests/webhooks.yaml"} {
		text, err := os.ReadFile(filepath.Join("two-teams", file))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ = bytes.Cut(text, []byte("\n")) // the comment
		if !bytes.Contains(page, append([]byte("```yaml\n"), text...)) {
			t.Errorf("the page does not have the text of %s", file)
		}
	}
}

// teamsRegister checks what the account of a team may register.
func teamsRegister(t *testing.T, cluster *testenv.Cluster, team string) {
	t.Helper()
	configuration := "validatingwebhookconfiguration/" + team + "-hooks-shell-operator-admission-hooks"
	for change, want := range map[string]string{
		`{"op": "remove", "path": "/webhooks/0/namespaceSelector"}`:                                     team,
		`{"op": "replace", "path": "/webhooks/0/namespaceSelector/matchLabels", "value": {"a": "b"}}`:   team,
		`{"op": "replace", "path": "/webhooks/0/rules/0/scope", "value": "*"}`:                          "needs scope: Namespaced",
		`{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}`:                     "",
		`{"op": "copy", "from": "/webhooks/0/namespaceSelector", "path": "/webhooks/0/objectSelector"}`: "",
	} {
		changed := cluster.Kubectl(t, "patch", configuration, "--type=json", "-p", "["+change+"]", "--dry-run=server", "-o", "json")
		out, err := cluster.TryKubectl(changed, "replace", "-f", "-", "--dry-run=server", "--as", account(team))
		if want == "" && err != nil {
			t.Errorf("%s: %s", change, out)
		}
		if want != "" && (err == nil || !strings.Contains(out, "'webhooks-of-"+team+"' with binding") || !strings.Contains(out, want)) {
			t.Errorf("%s was not denied with %q: %s", change, want, out)
		}
	}
	for _, verb := range []string{"create", "delete"} {
		cluster.UntilDenied(t, account(team), team, verb, configuration)
	}
}

func account(namespace string) string { return "system:serviceaccount:" + namespace + ":hooks" }

// team is a release of the chart.
type team struct {
	*example
	hooks string
	env   []string
}

// variables matches the variables in the Deployment that matter outside of a Pod.
var variables = regexp.MustCompile(`(?m)^ +- \{name: (\w+), value: "?([^"}]+)"?\}$`)

// install applies what helm install does for a team, in its namespace.
func install(t *testing.T, cluster *testenv.Cluster, dir, namespace string) team {
	t.Helper()
	cmd := exec.Command(filepath.Join(test.Root(), "bin", "tools", "chart"), "render", "--no-hooks", "--name", "hooks",
		"--namespace", namespace, "--values", filepath.Join(dir, namespace, "values.yaml"), filepath.Join(test.Root(), "deploy", "chart"))
	manifest, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: make delivery-tools builds bin/tools/chart", err)
	}
	t.Cleanup(func() {
		cluster.KubectlInput(t, string(manifest), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	})
	cluster.KubectlInput(t, string(manifest), "apply", "--server-side", "-f", "-")
	cluster.UntilRoles(t, account(namespace), namespace, string(manifest))
	e := &example{t: t, cluster: cluster, name: "hooks", namespace: namespace}
	env := []string{"SHELL_OPERATOR_NAMESPACE=" + namespace, retryMinDelay, retryMaxDelay}
	for _, v := range variables.FindAllStringSubmatch(string(manifest), -1) {
		switch v[1] {
		case "HOME", "LOG_TYPE", "SHELL_OPERATOR_RUN_DIR", "VALIDATING_WEBHOOK_SERVICE_NAME":
		default:
			env = append(env, v[1]+"="+v[2])
		}
	}
	return team{e, filepath.Join(dir, namespace, "hooks"), env}
}

func (r team) start() *example {
	r.t.Helper()
	r.operator = testenv.Start(r.t, testenv.OperatorOptions{HooksDir: r.hooks, Env: r.env,
		Kubeconfig: r.cluster.KubeconfigOf(r.t, r.namespace, r.name)})
	return r.example
}

// copyOf copies an example with other names.
func copyOf(t *testing.T, name string, renamed func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	err := fs.WalkDir(os.DirFS(name), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, renamed(path)), 0o755)
		}
		text, err := os.ReadFile(filepath.Join(name, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, renamed(path)), []byte(renamed(string(text))), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
