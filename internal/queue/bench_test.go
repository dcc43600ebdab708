package queue

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// hookTask is as cheap as a task can be. Tasks of the same hook become one.
type hookTask struct {
	plain
	hook, events int
	ran          func(events int)
}

func (h *hookTask) String() string { return "hook" }

func (h *hookTask) Run(context.Context) error {
	h.ran(h.events)
	return nil
}

func (h *hookTask) Absorb(behind Task) bool {
	next := behind.(*hookTask)
	if h.hook != next.hook {
		return false
	}
	h.events += next.events
	return true
}

// BenchmarkAdd adds to a queue without a worker.
func BenchmarkAdd(b *testing.B) {
	for _, hooks := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d hooks in turn", hooks), func(b *testing.B) {
			b.ReportAllocs()
			set := NewSet(Options{})
			for i := range b.N {
				set.Add("main", "", &hookTask{hook: i % hooks, events: 1})
			}
		})
	}
}

// BenchmarkRun is the way of a task through the queue: added, woken for, run, removed.
func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	left := b.N
	done := make(chan bool)
	ran := func(events int) {
		if left -= events; left == 0 {
			close(done)
		}
	}
	set := NewSet(Options{Backoff: func(int) time.Duration { return 0 }})
	stop, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = set.Run(stop, stop) }()
	for i := range b.N {
		set.Add("main", "", &hookTask{hook: i % 2, events: 1, ran: ran})
	}
	<-done
}

// BenchmarkDeepQueue has 100 000 tasks that wait.
func BenchmarkDeepQueue(b *testing.B) {
	const waiting = 100_000
	fill := func() *Set {
		set := NewSet(Options{})
		for i := range waiting {
			set.Add("main", "", &hookTask{hook: i % 2})
		}
		return set
	}
	b.Run("fill", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			fill()
		}
	})
	b.Run("add", func(b *testing.B) {
		set := fill()
		b.ResetTimer()
		for i := range b.N {
			set.Add("main", "", &hookTask{hook: i % 2})
		}
	})
	b.Run("run", func(b *testing.B) { // each task that has run makes another
		b.ReportAllocs()
		set := NewSet(Options{Backoff: func(int) time.Duration { return 0 }})
		stop, cancel := context.WithCancel(b.Context())
		count := 0
		var ran func(int)
		ran = func(int) {
			set.Add("main", "", &hookTask{hook: count % 2, events: 1, ran: ran})
			if count++; count == b.N {
				cancel()
			}
		}
		for i := range waiting {
			set.Add("main", "", &hookTask{hook: i % 2, events: 1, ran: ran})
		}
		b.ResetTimer()
		_ = set.Run(stop, stop)
	})
	b.Run("dump", func(b *testing.B) {
		b.ReportAllocs()
		set := fill()
		b.ResetTimer()
		for range b.N {
			dump(set)
		}
	})
}
