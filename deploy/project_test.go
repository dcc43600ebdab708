package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/test"
)

// TestProject renders the values that init --project writes.
func TestProject(t *testing.T) {
	t.Setenv("PATH", filepath.Join(test.Root(), "bin", "tools")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, binding := range append(dev.InitBindings(), "reconcile") {
		o := dev.InitOptions{File: filepath.Join(t.TempDir(), "hooks", "a.sh"), Binding: binding, Project: "latest", Path: os.Getenv("PATH")}
		if o.Reconcile = binding == "reconcile"; o.Reconcile {
			o.Binding = ""
		}
		done, err := dev.Init(o)
		if done.Missing != "" {
			t.Skipf("needs %s", done.Missing)
		}
		if err != nil {
			t.Fatalf("%s: %v", binding, err)
		}
		values, err := os.ReadFile(done.Paths[len(done.Paths)-1])
		if err != nil {
			t.Fatal(err)
		}
		if o := rendered(t, string(values)); o["Deployment/shop-shell-operator"] == nil {
			t.Errorf("%s: no Deployment with\n%s", binding, values)
		}
	}
}
