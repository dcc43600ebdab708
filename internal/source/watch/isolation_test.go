package watch

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/test"
)

// gated is a Sink that records events, and stores their payloads only when it is allowed to.
type gated struct {
	silence
	events chan event.Event
	keep   func()
}

func (g *gated) Event(ev event.Event) { g.events <- ev }
func (g *gated) Keep(b []byte) event.Payload {
	if g.keep != nil {
		g.keep()
	}
	return event.Memory(b)
}

// share returns a feed that unlocked bindings with these filters and sinks share.
func share(t *testing.T, filters []string, sinks []*gated) (f *stream.Manual, all []*monitor) {
	compiler := jq.NewCompiler(jq.Options{Timeout: time.Hour})
	f = stream.NewManual(true)
	for i, filter := range filters {
		m := silentMonitor(hook.Kubernetes{Added: true, KeepFullObjects: true})
		m.sink = sinks[i]
		if filter != "" {
			program, err := compiler.Compile(filter)
			if err != nil {
				t.Fatal(err)
			}
			m.program, m.filters = program, []*jq.Filter{program}
		}
		sub := &stream.Subscription{Consumer: m}
		m.expect(sub, source{})
		f.Join(sub)
		all = append(all, m)
	}
	if err := f.DeliverList(t.Context(), strings.NewReader(`{"metadata":{"resourceVersion":"1"}}`)); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		<-m.filled
		m.unlock()
	}
	return f, all
}

// add delivers an object.
func add(t *testing.T, f *stream.Manual, i int) {
	t.Helper()
	if err := f.DeliverChange(t.Context(), pod(i), false); err != nil {
		t.Fatal(err)
	}
}

func pod(i int) []byte {
	return fmt.Appendf(nil, `{"kind":"Pod","metadata":{"name":"p%d","uid":"%d","resourceVersion":"%d"}}`, i, i, i+10)
}

// A filter that takes long delays its own binding only.
func TestSlowFilterDelaysItsBindingOnly(t *testing.T) {
	sinks := []*gated{{events: make(chan event.Event, 10)}, {events: make(chan event.Event, 10)}, {events: make(chan event.Event, 10)}}
	f, _ := share(t, []string{"", ".metadata.name", "last(range(1e15))"}, sinks)
	began := time.Now()
	for i := range 4 {
		add(t, f, i)
	}
	for _, sink := range sinks[:2] {
		for i := range 4 {
			if ev := test.Receive(t, sink.events, "event"); ev.Object.Name != fmt.Sprint("p", i) {
				t.Errorf("event %d is for %s", i, ev.Object.Name)
			}
		}
	}
	t.Logf("four objects were delivered beside the slow filter after %s", time.Since(began))
	if len(sinks[2].events) > 0 {
		t.Error("a filter without end has ended")
	}
}

// The same holds for a list: the others have their initial list meanwhile.
func TestSlowFilterDelaysItsInitialListOnly(t *testing.T) {
	compiler := jq.NewCompiler(jq.Options{Timeout: time.Hour})
	f := stream.NewManual(true)
	var all []*monitor
	for _, filter := range []string{".metadata.name", "last(range(1e15))"} {
		program, err := compiler.Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		m := silentMonitor(hook.Kubernetes{})
		m.program, m.filters = program, []*jq.Filter{program}
		sub := &stream.Subscription{Consumer: m}
		m.expect(sub, source{})
		f.Join(sub)
		all = append(all, m)
	}
	const n = 200 // several batches
	items := make([][]byte, n)
	for i := range items {
		items[i] = pod(i)
	}
	list := fmt.Sprintf(`{"metadata":{"resourceVersion":"1"},"items":[%s]}`, bytes.Join(items, []byte(",")))
	if err := f.DeliverList(t.Context(), strings.NewReader(list)); err != nil {
		t.Fatal(err)
	}
	test.Receive(t, all[0].filled, "initial list")
	if got := all[0].snapshot().Len(); got != n {
		t.Errorf("%d objects", got)
	}
	select {
	case <-all[1].filled:
		t.Error("a filter without end has ended")
	default:
	}
}

// A sink that takes long to store an event delays neither snapshots nor other bindings.
func TestSlowSinkDelaysItsBindingOnly(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	entered := make(chan struct{}, 10)
	sinks := []*gated{
		{events: make(chan event.Event, 10), keep: func() { entered <- struct{}{}; <-gate }},
		{events: make(chan event.Event, 10)},
	}
	f, all := share(t, []string{"", ""}, sinks)
	add(t, f, 0)
	test.Receive(t, entered, "call of Keep")
	add(t, f, 1)
	for range 2 {
		test.Receive(t, sinks[1].events, "event of the other binding")
	}
	shown := make(chan int, 1)
	go func() { shown <- all[0].snapshot().Len() + all[0].state().Held }()
	if n := test.Receive(t, shown, "snapshot"); n != 1 {
		t.Errorf("the snapshot has %d objects", n)
	}
	open()
	for i := range 2 {
		if ev := test.Receive(t, sinks[0].events, "event"); ev.Object.Name != fmt.Sprint("p", i) {
			t.Errorf("event %d is for %s", i, ev.Object.Name)
		}
	}
	f.Wait()
}

// silentMonitor returns the monitor of a binding whose events nothing receives.
func silentMonitor(k hook.Kubernetes) *monitor {
	return newMonitor(&hook.Hook{Kubernetes: []hook.Kubernetes{k}}, 0, silence{}, NoMeter{}, slog.New(slog.DiscardHandler))
}

type silence struct{ NoMeter }

func (silence) Event(event.Event)                  {}
func (silence) Keep(b []byte) event.Payload        { return event.Memory(b) }
func (silence) Objects(*hook.Hook, int, int)       {}
func (silence) Gone(*hook.Hook, int, event.Object) {}
