package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// eye is a consumer with or without a filter.
type eye struct {
	decoded, json bool
	filtered      []any
	sets          int
	outcome       func(verb string, err error)
}

// ignore is for streams whose failures are not of interest.
func ignore(string) {}

func (e *eye) needs() needs {
	n := needs{json: e.json}
	if e.decoded {
		filter, _ := jq.NewCompiler(jq.Options{}).Compile(".metadata.name")
		n.filters = append(n.filters, filter)
	}
	return n
}
func (e *eye) holding() func(key, uid, version string) *object { return nil }
func (e *eye) filter(_ context.Context, _ *object, content *jq.Object) filtered {
	e.filtered = append(e.filtered, content)
	return filtered{filtered: []byte("{}"), done: true}
}
func (e *eye) replace(*subscription, []digested)     { e.sets++ }
func (e *eye) change(*subscription, digested)        {}
func (e *eye) remove(*subscription, *object)         {}
func (e *eye) dropped(*subscription, int)            {}
func (e *eye) processed(*subscription, uint64, bool) {}

func (e *eye) answered(_ *subscription, verb string, err error) {
	if e.outcome != nil {
		e.outcome(verb, err)
	}
}

// silentMonitor returns the monitor of a binding whose events nothing receives.
func silentMonitor(k hook.Kubernetes) *monitor {
	return newMonitor(&hook.Hook{Kubernetes: []hook.Kubernetes{k}}, 0, silence{}, NoMeter{}, slog.New(slog.DiscardHandler))
}

// An object keeps its bytes only if a consumer keeps objects, and is decoded once for all filters.
func TestDigest(t *testing.T) {
	for _, test := range []struct {
		name  string
		eyes  []*eye
		keeps bool
		trees int
	}{
		{"no consumer", nil, false, 0},
		{"a follower of namespaces", []*eye{{}}, false, 0},
		{"a filter without objects", []*eye{{decoded: true}}, false, 1},
		{"objects without filter", []*eye{{json: true}}, true, 0},
		{"two filters, one with objects", []*eye{{decoded: true}, {decoded: true, json: true}, {}}, true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var subs []*subscription
			for _, e := range test.eyes {
				subs = append(subs, &subscription{consumer: e})
			}
			d := &digester{indexer: newIndexer(true), ctx: t.Context(), subs: func(uint64) []*subscription { return subs }}
			a, err := d.digest([]byte(samplePod(1)), false)
			if err != nil {
				t.Fatal(err)
			}
			if keeps := a.json != nil; keeps != test.keeps {
				t.Errorf("keeps its JSON: %t", keeps)
			}
			var trees []any
			for i, e := range test.eyes {
				trees = append(trees, e.filtered...)
				if r := a.result(i); r.done != e.decoded || (r.filtered != nil) != e.decoded {
					t.Errorf("result %d is %+v", i, r)
				}
			}
			if len(trees) != test.trees {
				t.Errorf("%d filters saw it", len(trees))
			}
			for _, tree := range trees {
				if tree == nil {
					t.Error("a filter saw nil")
				}
			}
		})
	}
}

// benchmarkStream has a binding with a filter, as most have.
func benchmarkStream(b *testing.B) *feed {
	program, err := jq.NewCompiler(jq.Options{}).Compile(`{name: .metadata.name, image: .spec.containers[0].image, phase: .status.phase}`)
	if err != nil {
		b.Fatal(err)
	}
	m := silentMonitor(hook.Kubernetes{Modified: true})
	m.program, m.filters, m.phase = program, []*jq.Filter{program}, open
	s := newStream(nil, scope{}, ignore)
	s.join(&subscription{consumer: m})
	return &feed{stream: s, ctx: b.Context()}
}

type silence struct{ NoMeter }

func (silence) Event(event.Event)                  {}
func (silence) Keep(b []byte) event.Payload        { return event.Memory(b) }
func (silence) Objects(*hook.Hook, int, int)       {}
func (silence) Gone(*hook.Hook, int, event.Object) {}

// BenchmarkFirstList is the first set of a binding with a filter, from the bytes of a list to its items.
func BenchmarkFirstList(b *testing.B) {
	firstLists(b, func() *feed { return benchmarkStream(b) })
}

// BenchmarkTenFilters is the first set of ten bindings with different filters.
func BenchmarkTenFilters(b *testing.B) {
	c := jq.NewCompiler(jq.Options{})
	s := newStream(nil, scope{}, ignore)
	for _, filter := range []string{
		".spec.nodeName", "{name: .metadata.name, phase: .status.phase}", ".metadata.labels | keys", ".metadata.labels",
		"[.spec.containers[].image]",
		".spec.containers | length", ".metadata.uid", ".metadata.labels | to_entries | map(select(.value | length < 100))",
		"{ns: .metadata.namespace, kind, created: .metadata.creationTimestamp}", "del(.spec, .metadata.managedFields)",
	} {
		program, err := c.Compile(filter)
		if err != nil {
			b.Fatal(err)
		}
		m := silentMonitor(hook.Kubernetes{})
		m.program, m.filters, m.phase = program, []*jq.Filter{program}, open
		s.join(&subscription{consumer: m})
	}
	firstLists(b, func() *feed { return &feed{stream: s, ctx: b.Context()} })
}

func firstLists(b *testing.B, next func() *feed) {
	b.Helper()
	const n = 1000
	text := sampleList(n)
	b.ReportAllocs()
	for b.Loop() {
		f := next()
		list, err := decodeList(strings.NewReader(text), f.digesting())
		if err != nil {
			b.Fatal(err)
		}
		objects := make([]any, n)
		for i, o := range list.Items {
			objects[i] = o
		}
		if err := f.Replace(objects, ""); err != nil {
			b.Fatal(err)
		}
		f.running.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}

// digesting begins a list, and returns how to make digesters for it.
func (f *feed) digesting() func() *digester {
	f.listing()
	subs := f.serving()
	return func() *digester {
		return &digester{indexer: newIndexer(true), ctx: f.ctx, subs: func(uint64) []*subscription { return subs }}
	}
}

// The order of a list is kept, and a list with something unreadable is an error.
func TestBatches(t *testing.T) {
	for _, n := range []int{0, 1, batchObjects - 1, batchObjects, batchObjects + 1, 20 * batchObjects} {
		for _, broken := range []int{-1, 0, n / 2} {
			b := newBatches(digesting(true), "", "")
			for i := range n {
				text := fmt.Sprintf(`{"metadata":{"name":"%d"}}`, i)
				if i == broken {
					text = `{"metadata":1}`
				}
				b.add([]byte(text))
			}
			list, err := b.finish()
			if wantErr := broken >= 0 && broken < n; (err != nil) != wantErr {
				t.Errorf("%d objects, number %d is broken: error %v", n, broken, err)
			}
			if err == nil && len(list) != n {
				t.Errorf("%d of %d objects are returned", len(list), n)
			}
			for i, a := range list {
				if a.name != fmt.Sprint(i) {
					t.Fatalf("%d objects: number %d is %s", n, i, a.name)
				}
			}
		}
	}
}
