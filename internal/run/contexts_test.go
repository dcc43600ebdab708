package run

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
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
	w, err := OpenWorkspace(b.TempDir(), false)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	files := filesIn(w.Dir())
	path := files.contexts
	run := func(b *testing.B, end func()) {
		b.SetBytes(int64(text.Len()))
		b.ReportAllocs()
		for b.Loop() {
			f := w.contextOutput(files)
			if err := wire.WriteContexts(f, hook.FullContexts, contexts); err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
			end()
		}
	}
	b.Run("contexts, new file", func(b *testing.B) { run(b, func() { _ = os.Remove(path) }) })
	b.Run("contexts, file of the last run", func(b *testing.B) { run(b, func() { w.closeContexts(path) }) })
	b.Run("bytes, new file", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			_ = os.Remove(path)
		}
	})
}
