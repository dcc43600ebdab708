package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// many is a snapshot of objects that lie anywhere in memory, as the objects of bindings do.
type many []event.Object

func (m many) Len() int { return len(m) }

func (m many) Each(yield func(event.Object) bool) {
	for _, o := range m {
		if !yield(o) {
			return
		}
	}
}

// BenchmarkContextFile writes 10,000 objects to a file, and the same bytes from one place.
func BenchmarkContextFile(b *testing.B) {
	var list many
	for i := range 10_000 {
		text := fmt.Appendf(nil, `{"metadata":{"name":"map-%06d"},"text":"%s"}`, i, bytes.Repeat([]byte("x"), 2500))
		list = append(list, event.Object{Name: fmt.Sprint(i), Full: event.Memory(text)})
	}
	h := hookOf("--")
	contexts := slices.Values([]wire.Context{{Event: event.Event{Type: event.Synchronization, Hook: h}, Objects: list}})
	var text bytes.Buffer
	if err := wire.WriteContexts(&text, hook.FullContexts, contexts); err != nil {
		b.Fatal(err)
	}
	w := openWorkspace(b)
	run := func(b *testing.B, write func(io.Writer) error) {
		b.SetBytes(int64(text.Len()))
		b.ReportAllocs()
		for b.Loop() {
			f, err := w.Create("hook", "1-1")
			if err == nil {
				err = errors.Join(f.WriteContexts(write), w.Delete(f))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("contexts", func(b *testing.B) {
		run(b, func(w io.Writer) error { return wire.WriteContexts(w, hook.FullContexts, contexts) })
	})
	b.Run("bytes", func(b *testing.B) {
		run(b, func(w io.Writer) error { _, err := w.Write(text.Bytes()); return err })
	})
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
