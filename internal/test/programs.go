// Package test is for tests of all packages: what needs no control plane. It imports no other package of ours and no Kubernetes library:
// linking one into a test program takes longer than most tests.
//
// Callers may rely on this: waiting is done on signals, never by polling, and ends after Patience.
package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Long reports whether the large numbers are wanted: make long sets it, make test keeps each promise with small ones.
func Long() bool { return os.Getenv("LONG") != "" }

// Root is the top folder of the repository.
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "testcluster", "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			panic("the tests do not run inside the repository")
		}
		dir = parent
	}
})

// Tools is the folder with jq, kubectl and other programs that hooks call.
func Tools(t testing.TB) string {
	t.Helper()
	dir, err := TryTools()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TryTools is Tools with an error instead of a failed test.
var TryTools = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("make", "--no-print-directory", "tools")
	cmd.Dir = Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build the programs that hooks call: %w\n%s", err, out)
	}
	return filepath.Join(Root(), "bin", "tools"), nil
})
