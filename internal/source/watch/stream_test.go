package watch

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

func TestInParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, n := range []int{0, 1, 63, 64, 65, 128, 1000} {
		var mu sync.Mutex
		var got []int
		inParallel(n, func(i int) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, i)
		})
		slices.Sort(got)
		for i := range n {
			if len(got) != n || got[i] != i {
				t.Fatalf("%d calls for 0…%d: %v", len(got), n-1, got)
			}
		}
	}
}

// eye is a consumer that knows what it needs and counts what it sees.
type eye struct {
	wanted, decoded, json bool
	filtered              []any
}

func (e *eye) wants(*object) bool          { return e.wanted }
func (e *eye) needs() (decoded, json bool) { return e.decoded, e.json }
func (e *eye) filter(_ context.Context, _ *object, tree any) []byte {
	e.filtered = append(e.filtered, tree)
	return []byte("{}")
}
func (e *eye) replace(*subscription, []entry)        {}
func (e *eye) change(*subscription, entry)           {}
func (e *eye) remove(*subscription, *object)         {}
func (e *eye) answered(*subscription, string, error) {}

// An object keeps its bytes only if somebody keeps objects, and is decoded once for all who filter.
func TestEvaluate(t *testing.T) {
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
		{"a filter that wants another object", []*eye{{decoded: true, json: true}}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := newIndexer(true).index([]byte(samplePod(1)))
			if err != nil {
				t.Fatal(err)
			}
			var subs []*subscription
			for _, e := range test.eyes {
				subs = append(subs, &subscription{consumer: e})
			}
			results := evaluate(t.Context(), o, subs)
			if keeps := o.json != nil; keeps != test.keeps {
				t.Errorf("keeps its JSON: %t", keeps)
			}
			var trees []any
			for i, e := range test.eyes {
				trees = append(trees, e.filtered...)
				if filtered := results[i] != nil; filtered != (e.decoded && e.wanted) {
					t.Errorf("result %d is %q", i, results[i])
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
				if err := (&feed{s, round}).Replace(nil, ""); err != nil {
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
			if err := (&feed{s, round}).Replace(nil, ""); err != nil {
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
		if err := (&feed{s, round}).Replace(nil, ""); err != nil {
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
	return &feed{s, b.Context()}
}

type silence struct{}

func (silence) Event(event.Event)            {}
func (silence) Keep(b []byte) event.Payload  { return event.Memory(b) }
func (silence) Objects(*hook.Hook, int, int) {}
func (silence) FilterFailed(*hook.Hook, int) {}

// BenchmarkReplace is the first set of a binding with a filter, from decoded pages to its items.
func BenchmarkReplace(b *testing.B) {
	const n = 1000
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		list, err := decodeList(strings.NewReader(sampleList(n)), newIndexer(true))
		if err != nil {
			b.Fatal(err)
		}
		objects := make([]any, n)
		for i, o := range list.Items {
			objects[i] = o
		}
		f := benchmarkStream(b)
		b.StartTimer()
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
	raw, x := []byte(samplePod(1)), newIndexer(true)
	b.ReportAllocs()
	for b.Loop() {
		o, err := x.index(raw)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Update(o); err != nil {
			b.Fatal(err)
		}
	}
}
