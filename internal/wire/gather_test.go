package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// pieces joins what it gets, and fails when it has had enough.
type pieces struct {
	bytes.Buffer
	enough int
}

func (p *pieces) WritePieces(list [][]byte) error {
	if len(list) > mostPieces {
		return fmt.Errorf("%d pieces at a time", len(list))
	}
	for _, piece := range list {
		p.Write(piece)
	}
	if p.enough > 0 && p.Len() > p.enough {
		return errors.New("no space left")
	}
	return nil
}

// What is gathered is what would have been copied, whatever the sizes are.
func TestGatherWritesTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{0, 1, 10, 700, 3000} {
		var list objects
		for i := range count {
			size := []int{1, worthSharing - 1, worthSharing, 3000, 70_000}[r.IntN(5)]
			if count > 1000 {
				size = min(size, 3000)
			}
			o := event.Object{Name: fmt.Sprint(i), Full: event.Memory(`"` + strings.Repeat("x", size) + `"`)}
			if r.IntN(2) == 0 {
				o.Filtered = event.Memory(strings.Repeat("1", 1+r.IntN(1000)))
			}
			list = append(list, o)
		}
		name := strings.Repeat("n", outputBuffer-r.IntN(200)) // beyond the buffer
		h := &hook.Hook{Schedules: []hook.Schedule{{Binding: hook.Binding{Name: name}}}}
		contexts := []Context{
			{Event: event.Event{Type: event.Tick, Hook: h}, Snapshots: []NamedSnapshot{{"a", list}, {name, list}}},
			{Event: event.Event{Type: event.Startup, Hook: &testHook}},
		}
		var copied bytes.Buffer
		if err := WriteContexts(&copied, hook.FullContexts, slices.Values(contexts)); err != nil {
			t.Fatal(err)
		}
		var gathered pieces
		if err := WriteContexts(&gathered, hook.FullContexts, slices.Values(contexts)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(copied.Bytes(), gathered.Bytes()) {
			t.Errorf("%d objects: %d bytes are not the same as %d", count, gathered.Len(), copied.Len())
		}
		if count > 0 {
			full := pieces{enough: 1}
			if err := WriteContexts(&full, hook.FullContexts, slices.Values(contexts)); err == nil ||
				!strings.Contains(err.Error(), "no space left") {
				t.Errorf("%d objects: error %v", count, err)
			}
		}
	}
}
