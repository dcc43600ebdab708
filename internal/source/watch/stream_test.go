package watch

import (
	"context"
	"fmt"
	"log/slog"
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

func (e *eye) finalizes() bool { return false }

func (e *eye) needs() (filters []*jq.Filter, json bool) {
	if e.decoded {
		filter, _ := jq.NewCompiler(jq.Options{}).Compile(".metadata.name")
		filters = append(filters, filter)
	}
	return filters, e.json
}
func (e *eye) filter(_ context.Context, _ *object, content *jq.Object) result {
	e.filtered = append(e.filtered, content)
	return result{filtered: []byte("{}"), done: true}
}
func (e *eye) replace(*subscription, []entry, map[string]bool) { e.sets++ }
func (e *eye) change(*subscription, entry)                     {}
func (e *eye) remove(*subscription, *object)                   {}
func (e *eye) dropped(*subscription, int)                      {}

func (e *eye) answered(_ *subscription, verb string, err error) {
	if e.outcome != nil {
		e.outcome(verb, err)
	}
}

// silentMonitor is that of a binding whose events nothing receives.
func silentMonitor(k hook.Kubernetes) *monitor {
	return newMonitor(&hook.Hook{Kubernetes: []hook.Kubernetes{k}}, 0, silence{}, noFailures{}, noMeter{}, slog.New(slog.DiscardHandler))
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

type silence struct{}

func (silence) Event(event.Event)                   {}
func (silence) Keep(b []byte) event.Payload         { return event.Memory(b) }
func (silence) Objects(*hook.Hook, int, int)        {}
func (silence) FilterFailed(*hook.Hook, int, error) {}
func (silence) Gone(*hook.Hook, int, event.Object)  {}
func (silence) KeyFailed(*hook.Hook, int, error)    {}

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
