package lifecycle

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
)

// waitingHooks share a queue. Their events are changes of which a filter keeps something.
func waitingHooks(n int) []*hook.Hook {
	var hooks []*hook.Hook
	for i := range n {
		k := hook.Kubernetes{Queue: hook.MainQueue, JQFilter: ".data.n"}
		k.Name = "x"
		hooks = append(hooks, &hook.Hook{Name: fmt.Sprint("hook-", i), Kubernetes: []hook.Kubernetes{k}})
	}
	return hooks
}

// waitingChange is the n-th change as a binding makes it: with texts of its own.
func waitingChange(s *event.Spool, h *hook.Hook, n, size int) event.Event {
	namespace, name := "default", fmt.Sprintf("web-7d9c6b5f4-%05d", n%1000)
	key := namespace + "\x00" + name
	o := event.Object{Namespace: namespace, Name: key[len(namespace)+1:], Kind: "Pod"}
	o.Filtered = s.Put(bytes.Repeat([]byte("7"), size))
	return event.Event{Type: event.Change, Hook: h, Watch: event.Modified, Object: o}
}

// BenchmarkWaiting measures the heap that a waiting event takes, compared with the size of its context.
func BenchmarkWaiting(b *testing.B) {
	for _, hooks := range []int{1, 2} {
		for _, size := range []int{1, 16, 100, 200, 500, 1000} {
			b.Run(fmt.Sprintf("hooks in turn=%d/payload=%d", hooks, size), func(b *testing.B) {
				all := waitingHooks(hooks)
				log := slog.New(slog.DiscardHandler)
				spool, l := event.NewSpool(b.TempDir(), 32<<20, 0, log),
					&Lifecycle{o: Options{Log: log, Runner: run.New(run.Options{}), Queues: queue.NewSet(queue.Options{})}}
				l.publish()
				before := inUse()
				b.ReportAllocs()
				for n := range b.N {
					l.Queue(waitingChange(spool, all[n%hooks], n, size))
				}
				b.StopTimer()
				b.ReportMetric((inUse()-before)/float64(b.N), "B/event")
				b.ReportMetric(float64(size+len(`{"binding":"x","type":"Event","watchEvent":"Modified","filterResult":},`)), "B/context")
				runtime.KeepAlive(l)
			})
		}
	}
}

// inUse is what the process has of the system's memory for what is in use: the heap, and the runtime's notes of it.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.OtherSys)
}
