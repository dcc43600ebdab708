package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// trace is what tasks did, in order.
type trace struct{ lines []string }

// tracedTask fails some of its runs, merges with its neighbours, and leaves a part to another task.
type tracedTask struct {
	plain
	trace       *trace
	names       []string
	fails, left int
}

func (t *tracedTask) String() string { return fmt.Sprint(t.names) }
func (t *tracedTask) Policy() Policy { return Policy{Limit: 3} }

func (t *tracedTask) Absorb(behind Task) bool {
	next := behind.(*tracedTask)
	if len(t.names)+len(next.names) > 3 {
		return false
	}
	t.names = append(t.names, next.names...)
	return true
}

func (t *tracedTask) Run(context.Context) error {
	t.trace.lines = append(t.trace.lines, t.String())
	if t.fails--; t.fails >= 0 {
		return errors.New("as intended")
	}
	return nil
}

func (t *tracedTask) Rest() Task {
	if t.left == 0 || len(t.names) < 2 {
		return nil
	}
	rest := &tracedTask{trace: t.trace, names: slices.Clone(t.names[1:])}
	t.names, t.left = t.names[:1], 0
	return rest
}

// TestDrain compares the order of runs with that of a queue of a Set.
func TestDrain(t *testing.T) {
	for seed := range uint64(300) {
		tasks := func() (*trace, []Keyed) {
			random := rand.New(rand.NewPCG(seed, 1))
			log := &trace{}
			var all []Keyed
			for i := range 2 + random.IntN(10) {
				all = append(all, Keyed{
					[]string{"", "a", "b"}[random.IntN(3)],
					&tracedTask{trace: log, names: []string{fmt.Sprint(i)}, fails: max(0, random.IntN(8)-4), left: random.IntN(2)},
				})
			}
			return log, all
		}
		want, all := tasks()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			set := NewSet(Options{Backoff: func(int) time.Duration { return 0 }, OnEnd: func(string) { cancel() }})
			for _, k := range all {
				set.Add("q", k.Key, k.Task)
			}
			set.Keep(map[string]Shape{})
			_ = set.Run(ctx, t.Context())
		})
		got, all := tasks()
		if err := Drain(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.lines, want.lines) {
			t.Fatalf("seed %d: Drain runs %q, a Set %q", seed, got.lines, want.lines)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Drain(ctx, []Keyed{{"", &tracedTask{trace: &trace{}}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
