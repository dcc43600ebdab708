package run

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// stage is a world for a Runner in which a run lasts until it is told to end.
type stage struct {
	*Runner
	mu   sync.Mutex
	told []string // the contexts of each run
	end  chan error
}

func newStage(t *testing.T, hooks ...*hook.Hook) *stage {
	s := &stage{end: make(chan error)}
	s.Runner = New(hooks, Options{Executor: s, Snapshots: s, Effects: s, Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler)})
	return s
}

func (s *stage) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	for _, kv := range in.Env {
		if path, ok := strings.CutPrefix(kv, "BINDING_CONTEXT_PATH="); ok {
			text, err := os.ReadFile(path)
			if err != nil {
				return process.Result{}, err
			}
			s.mu.Lock()
			s.told = append(s.told, filepath.Base(in.Path)+" "+strings.Join(strings.Fields(string(text)), ""))
			s.mu.Unlock()
		}
	}
	return process.Result{}, <-s.end
}

func (s *stage) Snapshot(*hook.Hook, int) event.Snapshot    { return event.NoObjects{} }
func (s *stage) Synchronize(*hook.Hook, int) event.Snapshot { return event.NoObjects{} }
func (s *stage) Unlock(*hook.Hook, int)                     {}
func (s *stage) Apply(context.Context, *slog.Logger, *hook.Hook, Outputs) ([]Change, error) {
	return nil, nil
}
func (s *stage) ApplyFailed(context.Context, *slog.Logger, *hook.Hook, Outputs) ([]Change, error) {
	return nil, nil
}

func (s *stage) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[len(s.told)-1]
}

func (s *stage) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told)
}

func ticks(path string, names ...string) *hook.Hook {
	h := &hook.Hook{Name: "h", Path: "/" + path}
	for _, name := range names {
		h.Schedules = append(h.Schedules, hook.Schedule{Binding: hook.Binding{Name: name}, Queue: hook.MainQueue})
	}
	return h
}

func tick(h *hook.Hook, index int) event.Event {
	return event.Event{Type: event.Tick, Hook: h, Index: index}
}

// byName leads bindings to those with the same name.
func byName(from, to *hook.Hook) Successor {
	return Successor{to, func(_ event.Type, index int) (int, bool) {
		for i, s := range to.Schedules {
			if s.Name == from.Schedules[index].Name {
				return i, true
			}
		}
		return 0, false
	}}
}

// A hook is replaced between two attempts: the first one ends as what it was, the second tells the new one what is left.
func TestReplaceBetweenAttempts(t *testing.T) {
	old := ticks("old", "a", "b", "c")
	now := ticks("new", "c", "a")
	newest := ticks("newest", "a", "c")
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, old)
		task := s.Task(tick(old, 0))
		task.Absorb(s.Task(tick(old, 1)))
		task.Absorb(s.Task(tick(old, 2)))
		done := make(chan error)
		go func() { done <- task.Run(t.Context()) }()
		synctest.Wait()

		held := make(chan func())
		waited := make(chan int, 1)
		go func() {
			release, err := s.Hold(t.Context(), []*hook.Hook{old}, func(running []*hook.Hook) { waited <- len(running) })
			if err != nil {
				t.Error(err)
			}
			held <- release
		}()
		synctest.Wait()
		select {
		case <-held:
			t.Fatal("held while the hook is running")
		default:
		}
		s.end <- errors.New("no luck")
		if err := <-done; err == nil {
			t.Error("the run has not failed")
		}
		release := <-held
		if n := <-waited; n != 1 {
			t.Errorf("waited for %d hooks", n)
		}
		s.Replace(map[*hook.Hook]Successor{old: byName(old, now)})

		go func() { done <- task.Run(t.Context()) }()
		synctest.Wait()
		if s.runs() != 1 {
			t.Fatal("the hook runs while it is held")
		}
		release()
		synctest.Wait()
		if got, want := s.last(), `new [{"binding":"a","type":"Schedule"},{"binding":"c","type":"Schedule"}]`; got != want {
			t.Errorf("the new hook was told %s, want %s", got, want)
		}
		s.end <- nil
		if err := <-done; err != nil {
			t.Error(err)
		}

		// Twice, while a task waits.
		late := s.Task(tick(old, 1))
		waiting := s.Task(tick(old, 2))
		s.Replace(map[*hook.Hook]Successor{now: byName(now, newest)})
		if late.Follow() {
			t.Error("an event of a binding that has gone is wanted")
		}
		if err := late.Run(t.Context()); err != nil || s.runs() != 2 {
			t.Errorf("error %v, %d runs", err, s.runs())
		}
		go func() { done <- waiting.Run(t.Context()) }()
		s.end <- nil
		if err := <-done; err != nil || !strings.Contains(s.last(), `newest [{"binding":"c"`) {
			t.Errorf("error %v, told %s", err, s.last())
		}
		// A hook that is not running is held at once.
		release, err := s.Hold(t.Context(), []*hook.Hook{newest}, func([]*hook.Hook) { t.Error("there is nothing to wait for") })
		if err != nil {
			t.Fatal(err)
		}
		s.Replace(map[*hook.Hook]Successor{newest: {}})
		release()
		if s.Task(tick(newest, 0)).Follow() {
			t.Error("an event of a hook that has gone is wanted")
		}
	})
}

// Reviews do not wait for runs that a replacement waits for: such a run may be waiting for the review.
func TestReviewsPassAHold(t *testing.T) {
	h := ticks("h", "a")
	h.Validating = []hook.Admission{{Binding: hook.Binding{Name: "v"}}}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, h)
		done := make(chan error)
		go func() { done <- s.Task(tick(h, 0)).Run(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan error)
		go func() {
			_, err := s.Hold(ctx, []*hook.Hook{h}, func([]*hook.Hook) {})
			held <- err
		}()
		synctest.Wait()
		answered := make(chan error)
		go func() {
			_, err := s.Answer(t.Context(), Review{Event: event.Event{Type: event.Validating, Hook: h}, Body: []byte(`{}`)})
			answered <- err
		}()
		synctest.Wait()
		if s.runs() != 2 {
			t.Error("the review waits")
		}
		s.end <- nil
		s.end <- nil
		for range 2 {
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case err := <-answered:
				if err != nil {
					t.Error(err)
				}
			}
		}
		cancel()
		if err := <-held; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
