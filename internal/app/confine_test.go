package app

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// A run keeps the account of its start when a reload gives its tenant another one. A kubeconfig that is missing is written again.
func TestKubeconfigOfEachAccount(t *testing.T) {
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := &confinement{files: files, config: &rest.Config{Host: "https://cluster"},
		tokenFile: func(of *hook.Tenant) (string, error) { return "/token-of-" + of.ServiceAccount.Name, nil }}
	paths := map[string]string{}
	check := func(account string) {
		t.Helper()
		path, err := c.kubeconfig(&hook.Tenant{Name: "shop", ServiceAccount: hook.ServiceAccount{Namespace: "shop", Name: account}})
		if err != nil {
			t.Fatal(err)
		}
		paths[account] = path
		for name, path := range paths {
			if text, err := os.ReadFile(path); !strings.Contains(string(text), "/token-of-"+name+"\n") {
				t.Errorf("the kubeconfig of %s is\n%s%v", name, text, err)
			}
		}
	}
	check("former")
	check("latter")
	check("former")
	if err := os.Remove(paths["former"]); err != nil {
		t.Fatal(err)
	}
	check("former")
}
