package watch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// eye is a consumer that knows what it needs and counts what it sees.
type eye struct {
	wanted, decoded, json bool
	filtered              []any
	sets                  int
}

func (e *eye) wants(*object) bool { return e.wanted }
func (e *eye) needs() (filter *jq.Filter, json bool) {
	if e.decoded {
		filter, _ = jq.NewCompiler(jq.Options{}).Compile(".metadata.name")
	}
	return filter, e.json
}
func (e *eye) filter(_ context.Context, _ *object, content *jq.Object) []byte {
	e.filtered = append(e.filtered, content)
	return []byte("{}")
}
func (e *eye) replace(*subscription, []entry)        { e.sets++ }
func (e *eye) change(*subscription, entry)           {}
func (e *eye) remove(*subscription, *object)         {}
func (e *eye) answered(*subscription, string, error) {}

// An object keeps its bytes only if somebody keeps objects, and is decoded once for all who filter.
func TestDigest(t *testing.T) {
	for _, test := range []struct {
		name  string
		eyes  []*eye
		keeps bool
		trees int
	}{
		{"nobody", nil, false, 0},
		{"a follower of namespaces", []*eye{{wanted: true}}, false, 0},
		{"a filter without objects", []*eye{{wanted: true, decoded: true}}, false, 1},
		{"objects without filter", []*eye{{wanted: true, json: true}}, true, 0},
		{"two filters, one with objects", []*eye{{wanted: true, decoded: true}, {wanted: true, decoded: true, json: true}, {wanted: true}}, true, 2},
		{"a filter that wants another object", []*eye{{decoded: true, json: true}}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var subs []*subscription
			for _, e := range test.eyes {
				subs = append(subs, &subscription{consumer: e})
			}
			d := &digester{indexer: newIndexer(true), ctx: t.Context(), serving: func() []*subscription { return subs }}
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
				if filtered := a.result(i) != nil; filtered != (e.decoded && e.wanted) {
					t.Errorf("result %d is %q", i, a.result(i))
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

// A set is listed anew after the shortest period that anybody who shares it asked for, whoever came first.
func TestResync(t *testing.T) {
	for _, test := range []struct {
		name          string
		first, second time.Duration
		want          time.Duration // 0: never
	}{
		{"never", 0, 0, 0},
		{"the first asks", time.Minute, 0, time.Minute},
		{"the second asks", 0, time.Minute, time.Minute},
		{"the first asks for less", time.Minute, time.Hour, time.Minute},
		{"the second asks for less", time.Hour, time.Minute, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(nil, scope{})
				defer s.stop()
				s.join(&subscription{consumer: &eye{}}, test.first)
				round, end := s.round(t.Context())
				defer end()
				s.join(&subscription{consumer: &eye{}}, test.second)
				time.Sleep(time.Second) // the list takes that long
				if round.Err() != nil {
					t.Fatal("the list had to begin again for somebody whom it would have served")
				}
				if err := (&feed{stream: s, ctx: round}).Replace(nil, ""); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				select {
				case <-round.Done():
					if took := time.Since(began); took != test.want {
						t.Errorf("listed anew after %s", took)
					}
				case <-time.After(24 * time.Hour):
					if test.want != 0 {
						t.Error("never listed anew")
					}
				}
			})
		})
	}
}

// A list that the reflector makes by itself, after a gap, is as good as one that was due.
func TestResyncCountsFromTheLastList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(nil, scope{})
		defer s.stop()
		s.join(&subscription{consumer: &eye{}}, time.Minute)
		round, end := s.round(t.Context())
		defer end()
		began := time.Now()
		for range 3 {
			if err := (&feed{stream: s, ctx: round}).Replace(nil, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
		}
		<-round.Done()
		if took := time.Since(began); took != 2*40*time.Second+time.Minute {
			t.Errorf("listed anew after %s", took)
		}
	})
}

// Many who join a stream at once cause one new list.
func TestJoinersShareAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(nil, scope{})
		defer s.stop()
		s.join(&subscription{consumer: &eye{}}, 0)
		round, end := s.round(t.Context())
		if err := (&feed{stream: s, ctx: round}).Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			s.join(&subscription{consumer: &eye{}}, 0)
			synctest.Wait() // the first one has ended the round, the others ask for a new list too
		}
		if round.Err() == nil {
			t.Fatal("nobody lists anew for who joins")
		}
		end()
		round, end = s.round(t.Context())
		defer end()
		synctest.Wait()
		if round.Err() != nil {
			t.Error("the list that serves all has to begin again")
		}
	})
}

// benchmarkStream has a binding with a filter, as most have.
func benchmarkStream(b *testing.B) *feed {
	program, err := jq.NewCompiler(jq.Options{}).Compile(`{name: .metadata.name, image: .spec.containers[0].image, phase: .status.phase}`)
	if err != nil {
		b.Fatal(err)
	}
	m := &monitor{
		binding: &hook.Kubernetes{Modified: true}, program: program, sink: silence{}, unlocked: true,
		filled: make(chan struct{}),
	}
	m.owner.Store(&owner{})
	s := newStream(nil, scope{})
	s.join(&subscription{consumer: m, stream: s}, 0)
	return &feed{stream: s, ctx: b.Context()}
}

type silence struct{}

func (silence) Event(event.Event)            {}
func (silence) Keep(b []byte) event.Payload  { return event.Memory(b) }
func (silence) Objects(*hook.Hook, int, int) {}
func (silence) FilterFailed(*hook.Hook, int) {}

// BenchmarkFirstList is the first set of a binding with a filter, from the bytes of a list to its items.
func BenchmarkFirstList(b *testing.B) {
	const n = 1000
	text := sampleList(n)
	b.ReportAllocs()
	for b.Loop() {
		f := benchmarkStream(b)
		list, err := decodeList(strings.NewReader(text), f.newDigester)
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
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}

// BenchmarkTenFilters is the first set of ten bindings with different filters.
func BenchmarkTenFilters(b *testing.B) {
	const n = 1000
	text := sampleList(n)
	c := jq.NewCompiler(jq.Options{})
	s := newStream(nil, scope{})
	for _, filter := range []string{
		".spec.nodeName", "{name: .metadata.name, phase: .status.phase}", ".metadata.labels | keys", ".metadata.labels", "[.spec.containers[].image]",
		".spec.containers | length", ".metadata.uid", ".metadata.labels | to_entries | map(select(.value | length < 100))",
		"{ns: .metadata.namespace, kind, created: .metadata.creationTimestamp}", "del(.spec, .metadata.managedFields)",
	} {
		program, err := c.Compile(filter)
		if err != nil {
			b.Fatal(err)
		}
		m := &monitor{binding: &hook.Kubernetes{}, program: program, sink: silence{}, unlocked: true, filled: make(chan struct{})}
		m.owner.Store(&owner{})
		s.join(&subscription{consumer: m, stream: s}, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		f := &feed{stream: s, ctx: b.Context()}
		list, err := decodeList(strings.NewReader(text), f.newDigester)
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
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}

// BenchmarkChange is a change, from its bytes to the decision that it means nothing to a filter.
func BenchmarkChange(b *testing.B) {
	f := benchmarkStream(b)
	if err := f.Replace(nil, ""); err != nil {
		b.Fatal(err)
	}
	raw, d := []byte(samplePod(1)), f.newDigester()
	b.ReportAllocs()
	for b.Loop() {
		a, err := d.digest(raw, false)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Update(a); err != nil {
			b.Fatal(err)
		}
	}
}

func (f *feed) newDigester() *digester {
	return &digester{indexer: newIndexer(true), ctx: f.ctx, serving: f.serving}
}

// A list is handed on in its order, whoever digests it, and one that is broken is not handed on at all behind the break.
func TestPipeline(t *testing.T) {
	for _, n := range []int{0, 1, batchObjects - 1, batchObjects, batchObjects + 1, 20 * batchObjects} {
		for _, broken := range []int{-1, 0, n / 2} {
			var got []string
			p := newPipeline(digesting(true), func(a *arrival) { got = append(got, a.name) })
			var err error
			for i := 0; i < n && err == nil; i++ {
				text := fmt.Sprintf(`{"metadata":{"name":"%d"}}`, i)
				if i == broken {
					text = `{"metadata":1}`
				}
				err = p.add([]byte(text))
			}
			if flushed := p.flush(); err == nil {
				err = flushed
			}
			p.close()
			if wantErr := broken >= 0 && broken < n; (err != nil) != wantErr {
				t.Errorf("%d objects, number %d is broken: error %v", n, broken, err)
			}
			for i, name := range got {
				if name != fmt.Sprint(i) || broken >= 0 && i >= broken {
					t.Fatalf("%d objects, number %d is broken: number %d is %s", n, broken, i, name)
				}
			}
			if broken < 0 && len(got) != n {
				t.Errorf("%d of %d came", len(got), n)
			}
		}
	}
}

// Who joins while a list is read is not served by it, but by the next.
func TestJoinDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(nil, scope{})
		defer s.stop()
		early, late := &eye{wanted: true}, &eye{wanted: true}
		s.join(&subscription{consumer: early}, 0)
		round, end := s.round(t.Context())
		defer end()
		f := &feed{stream: s, ctx: round}
		a, err := f.newDigester().digest([]byte(samplePod(1)), false)
		if err != nil {
			t.Fatal(err)
		}
		s.join(&subscription{consumer: late}, 0)
		synctest.Wait()
		if round.Err() != nil {
			t.Fatal("the list that serves the others had to begin again")
		}
		if err := f.Replace([]any{a}, ""); err != nil {
			t.Fatal(err)
		}
		if early.sets != 1 || late.sets != 0 {
			t.Errorf("the early one got %d sets, the late one %d", early.sets, late.sets)
		}
		<-round.Done() // for the late one
	})
}
