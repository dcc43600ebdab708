// Package reload changes the files of hooks while an operator runs with --watch-hooks.
package reload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

type dir struct {
	t    *testing.T
	path string
	ns   string
}

// put replaces a file as programs do that never leave half of one.
func (d dir) put(name, text string, mode os.FileMode) {
	d.t.Helper()
	path := filepath.Join(d.path, name)
	if err := errors.Join(os.WriteFile(filepath.Join(d.path, ".new"), []byte(text), mode), os.Chmod(filepath.Join(d.path, ".new"), mode),
		os.Rename(filepath.Join(d.path, ".new"), path)); err != nil {
		d.t.Fatal(err)
	}
}

func (d dir) remove(name string) {
	d.t.Helper()
	if err := errors.Join(os.Remove(filepath.Join(d.path, name)), os.RemoveAll(filepath.Join(d.path, name+".yaml"))); err != nil {
		d.t.Fatal(err)
	}
}

// start starts an operator that follows its hooks.
func start(t *testing.T, cluster *testenv.Cluster, d dir, args ...string) *testenv.Operator {
	t.Helper()
	return testenv.Start(t, testenv.OperatorOptions{
		HooksDir: d.path, Kubeconfig: cluster.Kubeconfig, Args: append([]string{"--watch-hooks"}, args...),
	})
}

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }
