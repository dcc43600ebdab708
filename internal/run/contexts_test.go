package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
	contexts := []wire.Context{{Event: event.Event{Type: event.Synchronization, Hook: h}, Objects: list}}
	var text bytes.Buffer
	if err := wire.WriteContexts(&text, hook.FullContexts, contexts); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "context.json")
	for name, write := range map[string]func(f *os.File) error{
		"contexts": func(f *os.File) error { return wire.WriteContexts(contextFile{f}, hook.FullContexts, contexts) },
		"bytes":    func(f *os.File) error { _, err := f.Write(text.Bytes()); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					b.Fatal(err)
				}
				if err := write(f); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.Remove(path); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
