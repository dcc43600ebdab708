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

// Long reports whether the large numbers are wanted: make long sets it, make test and test-cluster keep each promise with small ones.
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

// InMemory reports whether an API server in memory stands for the control plane: in make test, and where none is built.
var InMemory = sync.OnceValue(func() bool {
	if of := os.Getenv("TESTCLUSTER"); of != "" || os.Getenv("TESTCLUSTER_DIR") != "" {
		return of == "memory"
	}
	_, err := os.Stat(filepath.Join(Root(), "bin", "testcluster"))
	return err != nil
})

// Trimmed is the folder of the trimmed kubectl, which is there after Tools.
func Trimmed() string {
	if InMemory() {
		return filepath.Join(Root(), "bin", "memory", "kubectl-trimmed")
	}
	return filepath.Join(Root(), "bin", "kubectl-trimmed")
}

// Tools is the folder with jq, kubectl and other programs that hooks call. In memory it has jq and the trimmed kubectl alone.
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
	target := "tools"
	if InMemory() {
		target = "memory"
	}
	cmd := exec.Command("make", "--no-print-directory", target)
	cmd.Dir = Root()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build the programs that hooks call: %w\n%s", err, out)
	}
	return filepath.Join(Root(), "bin", target), nil
})
