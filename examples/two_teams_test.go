package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The operator may do everything, and the accounts of the teams little: hooks write and read what their account may.
func TestTwoTeams(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	shop, paint := cluster.Namespace(t), cluster.Namespace(t)
	renamed := strings.NewReplacer("shop", shop, "paint", paint).Replace // namespaces, tenants and folders
	dir := copyOf(t, "two-teams", renamed)
	apply := func(file string) string {
		t.Helper()
		cluster.Kubectl(t, "apply", "-f", filepath.Join(dir, file))
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	apply("manifests/accounts.yaml")
	account := func(namespace string) string { return "system:serviceaccount:" + namespace + ":hooks" }
	for _, namespace := range []string{shop, paint} {
		cluster.UntilAllowed(t, account(namespace), namespace, "update", "configmaps")
	}
	apply("tests/fixtures/products.yaml")
	// Not in the example: a hook of one team that deletes an object of the other one.
	const vandal = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: vandal}]}'; exit; fi
echo '{operation: Delete, apiVersion: v1, kind: ConfigMap, namespace: shop, name: catalog}' >"$KUBERNETES_PATCH_PATH"
`
	if err := os.WriteFile(filepath.Join(dir, "hooks", paint, "vandal.sh"), []byte(renamed(vandal)), 0o755); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: filepath.Join(dir, "hooks"), Kubeconfig: cluster.Kubeconfig,
		Args: []string{"--tenants", filepath.Join(dir, "tenants.yaml"), "--retry-min-delay", "100ms", "--retry-max-delay", "1s"}})
	data := func(namespace, name, path string) func() string {
		return func() string {
			return cluster.Kubectl(t, "-n", namespace, "get", "configmap", name, "--ignore-not-found", "-o", "jsonpath="+path)
		}
	}
	becomes := func(got func() string, want string) {
		t.Helper()
		runs := -1
		op.Until(want, func(records []testenv.Record) bool {
			now := 0
			for _, r := range records {
				if r.Has("Hook executed successfully") {
					now++
				}
			}
			if now == runs {
				return false
			}
			runs = now
			return got() == want
		})
	}
	catalog, poster := data(shop, "catalog", "{.data.cake},{.data.tea}"), data(paint, "poster", "{.data.text}")
	becomes(catalog, "5,3")
	op.UntilLog("Enable Kubernetes binding for hook failed", "hook", paint+"/poster.sh")
	if why := op.Ask("why", paint+"/poster.sh"); !strings.Contains(why, "may not list and watch configmaps") {
		t.Errorf("why:\n%s", why)
	}
	if got := poster(); got != "" {
		t.Errorf("there is a poster of a catalog that the account may not read: %s", got)
	}
	apply("manifests/grant.yaml")
	becomes(poster, "cake: only 5!\ntea: only 3!")
	cluster.Kubectl(t, "-n", shop, "patch", "configmap", "tea", "-p", `{"data": {"price": "4"}}`)
	becomes(poster, "cake: only 5!\ntea: only 4!")

	failed := op.UntilLog("Hook failed. Will retry after delay.", "hook", paint+"/vandal.sh").Fields["error"]
	if !strings.Contains(failed, account(paint)) || !strings.Contains(failed, "cannot delete resource") {
		t.Errorf("the error is %q", failed)
	}
	if got := catalog(); got != "5,4" {
		t.Errorf("the catalog is %q", got)
	}
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
