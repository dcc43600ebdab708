package dev_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev"
)

// TestInMemory: a second server has a port of its own, the kubeconfig is all that a server writes, and one that cannot be written ends it.
func TestInMemory(t *testing.T) {
	run := func(dir string, do func()) error {
		o := dev.ControlPlane{Path: dev.InMemory, Dir: dir}
		return o.Run(t.Context(), t.Context(), func(context.Context) error { do(); return nil })
	}
	first, second := t.TempDir(), t.TempDir()
	err := run(first, func() {
		if err := run(second, func() {}); err != nil {
			t.Error(err)
		}
	})
	one, _ := os.ReadFile(first + "/kubeconfig")
	other, _ := os.ReadFile(second + "/kubeconfig")
	if files, _ := os.ReadDir(first); err != nil || len(files) != 1 || string(one) == string(other) {
		t.Errorf("%v, %v\n%s\n%s", err, files, one, other)
	}
	full := t.TempDir()
	if err := os.Symlink("/dev/full", full+"/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	err = run(full, func() { t.Error("it runs without its kubeconfig") })
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "cannot write the kubeconfig of the API server in memory: ") {
		t.Error(err)
	}
}
