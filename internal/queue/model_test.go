package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// step is one thing that happens in TestAgainstModel.
type step struct {
	// kind is "add" or "first" (hook), "finish" or "fail" (the task that runs), "retry" (after a failure).
	kind, queue, hook string
}

var steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		rapid.SampledFrom([]string{"add", "add", "add", "first", "finish", "finish", "fail", "retry"}).Draw(t, "kind"),
		rapid.SampledFrom([]string{"main", "side"}).Draw(t, "queue"),
		rapid.SampledFrom([]string{"x", "y", "-"}).Draw(t, "hook"), // "-" absorbs nothing
	}
}), 1, 60)

// TestAgainstModel compares what a Set runs and holds after each step with plain lists.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := steps.Draw(rt, "steps")
		var got []string
		synctest.Test(t, func(t *testing.T) { got = play(t, all) })
		want := playModel(all)
		for i, s := range all {
			if got[i] != want[i] {
				rt.Fatalf("after step %d, %v:\n got %s\nwant %s", i, s, got[i], want[i])
			}
		}
	})
}

// play returns what each queue runs and holds after each step, with a Set.
func play(t *testing.T, steps []step) []string {
	var running gates
	set := NewSet(Options{Backoff: func(int) time.Duration { return time.Minute }})
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- set.Run(stop, stop) }()
	defer func() {
		cancel()
		<-ended
	}()
	var seen []string
	for i, s := range steps {
		task := &gatedTask{queue: s.queue, hook: s.hook, events: []int{i}, running: &running}
		switch gate := running.of(s.queue); {
		case s.kind == "add":
			set.Add(s.queue, task)
		case s.kind == "first":
			set.AddFirst(s.queue, task)
		case s.kind == "finish" && gate != nil:
			gate <- nil
		case s.kind == "fail" && gate != nil:
			gate <- errors.New("fails")
		case s.kind == "retry":
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		var text strings.Builder
		for _, q := range dump(set) {
			fmt.Fprintf(&text, "%s runs %t:", q.Name, running.of(q.Name) != nil)
			for _, task := range q.Tasks {
				text.WriteString(" " + task)
			}
			text.WriteString("; ")
		}
		seen = append(seen, text.String())
	}
	return seen
}

// gatedTask runs until the test ends it.
type gatedTask struct {
	queue, hook string
	events      []int
	running     *gates
}

// gates has the channel that ends the task that runs, by queue.
type gates struct{ m sync.Map }

func (g *gates) of(queue string) chan error {
	gate, _ := g.m.Load(queue)
	c, _ := gate.(chan error)
	return c
}

func (g *gatedTask) String() string              { return fmt.Sprint(g.hook, g.events) }
func (g *gatedTask) Ready(context.Context) error { return nil }

func (g *gatedTask) Absorb(behind Task) bool {
	next := behind.(*gatedTask)
	if g.hook != next.hook || g.hook == "-" {
		return false
	}
	g.events = append(g.events, next.events...)
	return true
}

func (g *gatedTask) Run(ctx context.Context) error {
	gate := make(chan error)
	g.running.m.Store(g.queue, gate)
	defer g.running.m.Delete(g.queue)
	select {
	case err := <-gate:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// playModel returns what play should.
func playModel(steps []step) []string {
	queues := map[string]*modelQueue{}
	var seen []string
	for i, s := range steps {
		q := queues[s.queue]
		switch s.kind {
		case "add", "first":
			if q == nil {
				q = &modelQueue{}
				queues[s.queue] = q
			}
			q.add(&modelTask{hook: s.hook, events: []int{i}, first: s.kind == "first"})
		case "finish":
			if q != nil && q.runs {
				q.tasks, q.runs = q.tasks[1:], false
			}
		case "fail":
			if q != nil && q.runs {
				q.runs, q.sleeps = false, true
			}
		case "retry": // time passes for all
			for _, q := range queues {
				q.sleeps = false
			}
		}
		var text strings.Builder
		for _, name := range []string{"main", "side"} {
			if q := queues[name]; q != nil {
				q.settle()
				fmt.Fprintf(&text, "%s runs %t:", name, q.runs)
				for _, task := range q.tasks {
					text.WriteString(" " + fmt.Sprint(task.hook, task.events))
				}
				text.WriteString("; ")
			}
		}
		seen = append(seen, text.String())
	}
	return seen
}

type modelQueue struct {
	tasks []*modelTask
	// runs and sleeps are the state of the first task: one of them is true as long as there is one.
	runs, sleeps bool
}

type modelTask struct {
	hook   string
	events []int
	// first is true for a task that was added first and still waits for its turn.
	first bool
}

func (q *modelQueue) add(t *modelTask) {
	if t.first {
		at := 0
		for at < len(q.tasks) && (at == 0 && (q.runs || q.sleeps) || q.tasks[at].first) {
			at++
		}
		q.tasks = slices.Insert(q.tasks, at, t)
		return
	}
	if last := len(q.tasks) - 1; last > 0 && q.tasks[last].absorbs(t) {
		return
	}
	q.tasks = append(q.tasks, t)
}

// settle starts the first task if it neither runs nor sleeps. Before a run it absorbs its neighbours.
func (q *modelQueue) settle() {
	if q.runs || q.sleeps || len(q.tasks) == 0 {
		return
	}
	head := q.tasks[0]
	for len(q.tasks) > 1 && head.absorbs(q.tasks[1]) {
		q.tasks = slices.Delete(q.tasks, 1, 2)
	}
	head.first, q.runs = false, true
}

func (t *modelTask) absorbs(behind *modelTask) bool {
	if t.hook != behind.hook || t.hook == "-" {
		return false
	}
	t.events = append(t.events, behind.events...)
	return true
}
