package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// limited fails when it has been given enough.
type limited struct {
	bytes.Buffer
	enough int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len() >= l.enough {
		return 0, errors.New("no space left")
	}
	return l.Buffer.Write(p)
}

// The buffer writes what it is given, whatever the sizes, and returns the first error.
func TestBuffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var want bytes.Buffer
	got := limited{enough: 1 << 30}
	b, full := newBuffer(&got), newBuffer(&limited{enough: maxBuffer})
	for range 1000 {
		text := strings.Repeat("x", []int{0, 1, 100, firstBuffer, maxBuffer - 1, maxBuffer, maxBuffer + 1}[r.IntN(7)])
		want.WriteString(text)
		for _, to := range []*buffer{b, full} {
			if r.IntN(2) == 0 {
				_, _ = to.WriteString(text)
			} else {
				_, _ = to.Write([]byte(text))
			}
		}
	}
	if err := b.Flush(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of %d, %v", got.Len(), want.Len(), err)
	}
	if err := full.Flush(); err == nil || err.Error() != "no space left" || cap(full.pending) > 2*maxBuffer {
		t.Errorf("error %v, %d bytes kept", err, cap(full.pending))
	}
}

// BenchmarkWriteEvent tells of one change, as most runs do.
func BenchmarkWriteEvent(b *testing.B) {
	ev := event.Event{Type: event.Change, Hook: &testHook, Watch: event.Modified}
	ev.Object.Full = event.Memory(`{"metadata":{"name":"one"},"text":"` + strings.Repeat("x", 1500) + `"}`)
	contexts := []Context{{Event: ev}}
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteContexts(io.Discard, hook.FullContexts, slices.Values(contexts)); err != nil {
			b.Fatal(err)
		}
	}
}
