package run

import (
	"log/slog"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// many is a snapshot of objects that lie anywhere in memory, as those of bindings do.
type many []event.Object

func (m many) Len() int { return len(m) }

func (m many) Each(yield func(event.Object) bool) {
	for _, o := range m {
		if !yield(o) {
			return
		}
	}
}

func openWorkspace(t testing.TB) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}
