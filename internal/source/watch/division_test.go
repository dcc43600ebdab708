package watch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

func TestDivide(t *testing.T) {
	pods := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespaced: true}
	nodes := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	namespaces := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	s, waits := shard.Shard{Index: 1, Count: 3}, shard.Shard{Index: shard.Waiting, Count: 3}
	byObject, byNamespace := stream.Part{Part: s.Part(shard.ByObject)}, stream.Part{Part: s.Part(shard.ByNamespace)}
	named := stream.Part{Part: s.Part(shard.ByNamespace), Named: true}
	for _, test := range []struct {
		name     string
		shard    shard.Shard
		by       shard.By
		resource kube.Resource
		want     division
	}{
		{"no shards", shard.Shard{}, shard.ByObject, pods, division{}},
		{"not divided, shard 0", shard.Shard{Index: 0, Count: 3}, shard.None, pods, division{}},
		{"not divided, shard 1", s, shard.None, pods, division{rests: true}},
		{"standby", waits, shard.ByObject, pods, division{rests: true}},
		{"object", s, shard.ByObject, pods, division{own: byObject, stream: byObject}},
		{"object, cluster-scoped", s, shard.ByObject, nodes, division{own: byObject, stream: byObject}},
		{"namespace", s, shard.ByNamespace, pods, division{own: byNamespace, stream: byNamespace}},
		{"namespace, cluster-scoped", s, shard.ByNamespace, nodes, division{own: byNamespace}},
		{"namespace, Namespaces", s, shard.ByNamespace, namespaces, division{own: named, stream: named}},
	} {
		h := &hook.Hook{Kubernetes: make([]hook.Kubernetes, 1), Settings: hook.Settings{ShardBy: test.by}}
		if got := divide(test.shard, h, test.resource); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// replicas are the Watchers of all shards, and of a standby, on one model server.
type replicas struct {
	watchers []*Watcher
	seen     []*witness
}

const testShards = 3

// divideWork runs test with the Watchers of three shards, in a bubble.
func divideWork(t *testing.T, s *server, test func(t *testing.T, r *replicas)) {
	synctest.Test(t, func(t *testing.T) {
		s.changed = make(chan struct{}) // belongs to the bubble
		r := &replicas{}
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range testShards {
			seen := &witness{t: t, known: map[*hook.Hook]map[string]bool{}, events: map[*hook.Hook][]string{}}
			w, err := New(Options{
				Config: &rest.Config{Host: "http://api.example.com", Transport: s, QPS: -1}, JQ: jq.NewCompiler(jq.Options{}), Sink: seen,
				Log: slog.New(slog.DiscardHandler), Shards: testShards, Standby: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = w.Run(ctx) })
			w.Take(shard.Shard{Index: i, Count: testShards})
			w.Lead()
			r.watchers, r.seen = append(r.watchers, w), append(r.seen, seen)
		}
		test(t, r)
	})
}

// dividedHook is a hook for all ConfigMaps, whose objects are divided; with answering its binding is in the snapshots of requests.
func dividedHook(name string, by shard.By, answering bool) *hook.Hook {
	h := bindings(name, hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap"})
	h.Settings.ShardBy = by
	if answering {
		h.HTTP = []hook.HTTP{{Binding: hook.Binding{Includes: []int{0}}}}
	}
	return h
}

func (w *witness) start(watcher *Watcher, h *hook.Hook) {
	if err := watcher.Enable(w.t.Context(), h, func(int, error) {}); err != nil {
		return // the test has ended
	}
	known := map[string]bool{}
	for o := range event.Own(watcher.Synchronize(h, 0)).Each {
		known[o.Name] = true
	}
	w.mu.Lock()
	w.known[h] = known
	w.mu.Unlock()
	watcher.Unlock(h, 0)
}

// owner returns the shard of an object.
func (r revision) owner(by shard.By) int {
	namespace, _ := r.key()
	return slices.IndexFunc([]int{0, 1, 2}, func(i int) bool {
		return shard.Shard{Index: i, Count: testShards}.Part(by).Has(fmt.Sprint(r.uid), namespace)
	})
}

// Every change reaches the shard of its object, and no other, whether the API server selects or not, while whole readers of the same
// objects come and go. Snapshots are the parts.
func TestEachChangeHasOneShard(t *testing.T) {
	for _, by := range []shard.By{shard.ByObject, shard.ByNamespace} {
		for _, sharded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, server selects %t", by, sharded), func(t *testing.T) { testEachChange(t, by, sharded) })
		}
	}
}

func testEachChange(t *testing.T, by shard.By, sharded bool) {
	s, random := newServer(1), rand.New(rand.NewPCG(1, 2))
	s.sharded = sharded
	divideWork(t, s, func(t *testing.T, r *replicas) {
		stays := dividedHook("stays", by, false)
		for i, w := range r.watchers {
			r.seen[i].start(w, stays)
		}
		var others sync.WaitGroup
		for i := range 200 {
			ns := random.IntN(7)
			name := fmt.Sprintf("ns-%d/c%d-%d", ns, random.IntN(3), ns)
			s.write(name, random.IntN(2) == 0)
			s.write(fmt.Sprintf("ns-%d/short-%d", i%11, i), false)
			s.write(fmt.Sprintf("ns-%d/short-%d", i%11, i), true)
			if at := i % testShards; i%9 == 0 {
				others.Go(func() {
					h := dividedHook(fmt.Sprint("whole ", i), shard.None, true)
					r.seen[at].start(r.watchers[at], h)
					time.Sleep(40 * time.Millisecond)
					r.watchers[at].Disable(h, 0)
				})
			}
			time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		}
		others.Wait()
		time.Sleep(15 * time.Second) // the watches are delayed
		synctest.Wait()

		want := make([][]string, testShards)
		for i, rev := range s.history[1:] {
			what := "Modified "
			if rev.deleted {
				what = "Deleted "
			} else if rev.uid == i+2 {
				what = "Added "
			}
			_, name := rev.key()
			want[rev.owner(by)] = append(want[rev.owner(by)], what+name)
		}
		there := s.at(len(s.history))
		for name, version := range there { // who has an object is known where it is seen, and else if its namespace says so
			owner := s.history[version-1].owner(by)
			ns, object := s.history[version-1].key()
			for i, w := range r.watchers {
				want := owner
				if by == shard.ByObject && i != owner {
					want = Unknown
				}
				if is := w.Sight(stays, 0, ns, object); is.Shard != want {
					t.Errorf("shard %d says of %s that it is of shard %d, not %d", i, name, is.Shard, want)
				}
			}
		}
		for i, w := range r.watchers {
			if got := r.seen[i].events[stays]; !slices.Equal(got, want[i]) {
				t.Errorf("shard %d received %d events of %d", i, len(got), len(want[i]))
			}
			part := 0
			for _, version := range there {
				if s.history[version-1].owner(by) == i {
					part++
				}
			}
			if n := w.Snapshot(stays, 0).Len(); n != part {
				t.Errorf("shard %d sees %d objects of %d", i, n, part)
			}
		}
	})
}

// A hook that divides nothing runs on shard 0 only. Other shards and standbys have the bindings that requests include, and deliver nothing.
func TestHooksThatRunOnShard0(t *testing.T) {
	s := newServer(1)
	divideWork(t, s, func(t *testing.T, r *replicas) {
		for _, answering := range []bool{false, true} {
			h := dividedHook(fmt.Sprint("answering ", answering), shard.None, answering)
			for i, w := range r.watchers {
				r.seen[i].start(w, h)
			}
			s.write(fmt.Sprint("ns/new-", answering), false)
			time.Sleep(time.Minute)
			synctest.Wait()
			for i, w := range r.watchers {
				has := i == 0 || answering
				if n := w.Snapshot(h, 0).Len(); (n > 0) != has {
					t.Errorf("%s: shard %d has %d objects", h.Name, i, n)
				}
				if got := r.seen[i].events[h]; (len(got) == 1) != (i == 0) {
					t.Errorf("%s: shard %d received %q", h.Name, i, got)
				}
			}
		}
	})
}

// A standby has what requests need, whole, and no events. When it has taken its shard, it gets the rest.
func TestStandbyTakesAShard(t *testing.T) {
	s := newServer(1)
	for i := range 30 {
		s.write(fmt.Sprintf("ns-%d/c", i), false)
	}
	synctest.Test(t, func(t *testing.T) {
		s.changed = make(chan struct{})
		seen := &witness{t: t, known: map[*hook.Hook]map[string]bool{}, events: map[*hook.Hook][]string{}}
		w, err := New(Options{
			Config: &rest.Config{Host: "http://api.example.com", Transport: s, QPS: -1}, JQ: jq.NewCompiler(jq.Options{}), Sink: seen,
			Log: slog.New(slog.DiscardHandler), Shards: testShards, Standby: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() { _ = w.Run(ctx) })
		answers, runs := dividedHook("answers", shard.None, true), dividedHook("runs", shard.ByNamespace, false)
		for _, h := range []*hook.Hook{answers, runs} {
			seen.start(w, h)
		}
		if n := w.Snapshot(answers, 0).Len(); n != 31 {
			t.Errorf("requests at the standby see %d objects", n)
		}
		if n := w.Snapshot(runs, 0).Len(); n != 0 {
			t.Errorf("the standby has %d objects that only runs need", n)
		}
		w.Take(shard.Shard{Index: 1, Count: testShards})
		for _, h := range []*hook.Hook{answers, runs} {
			seen.start(w, h)
		}
		w.Lead()
		if got := contentsOf(w.Snapshot(runs, 0)); got == "" || strings.Count(got, " ") > 29 {
			t.Errorf("the shard sees %q", got)
		}
		if n := w.Snapshot(answers, 0).Len(); n != 31 {
			t.Errorf("requests at the owner see %d objects", n)
		}
	})
}

func contentsOf(s event.Snapshot) string {
	var names []string
	for o := range s.Each {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	return strings.Join(names, " ")
}

// A namespace of another shard is not listed, and no object of it is received.
func TestForeignNamespaces(t *testing.T) {
	var own, foreign []string
	for i := range 10 {
		name := fmt.Sprintf("team-%d", i)
		if (shard.Shard{Index: 0, Count: testShards}).Part(shard.ByNamespace).Has("", name) {
			own = append(own, name)
		} else {
			foreign = append(foreign, name)
		}
	}
	s := newServer(1)
	divideWork(t, s, func(t *testing.T, r *replicas) {
		h := dividedHook("named", shard.ByNamespace, false)
		h.Kubernetes[0].Namespaces = inNamespaces(slices.Concat(own[:2], foreign[:2])...)
		none := dividedHook("none", shard.ByNamespace, false)
		none.Kubernetes[0].Namespaces = inNamespaces(foreign...)
		for _, h := range []*hook.Hook{h, none} {
			if err := r.watchers[0].Enable(t.Context(), h, func(int, error) {}); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, request := range s.requests {
			for _, name := range foreign {
				if strings.Contains(request, "/namespaces/"+name+"/configmaps") {
					t.Errorf("request %s", request)
				}
			}
		}
		for _, name := range own[:2] {
			if !slices.ContainsFunc(s.requests, func(request string) bool { return strings.Contains(request, "/"+name+"/configmaps") }) {
				t.Errorf("%s is not listed: %q", name, s.requests)
			}
		}
	})
}

// In a binding that is whole because its objects are cluster-scoped, the guard decides about objects of the shard only.
func TestGuardsOfShards(t *testing.T) {
	own := shard.Shard{Index: 0, Count: testShards}.Part(shard.ByNamespace)
	namespaces := map[bool]string{}
	for i := range 10 {
		name := fmt.Sprintf("team-%d", i)
		namespaces[own.Has("", name)] = name
	}
	stage := newStage(t)
	stage.do([]string{"binding", "b"})
	m, g := stage.bindings["b"].monitor, &fakeGuard{admits: true}
	m.guard, m.division = g, division{own: stream.Part{Part: own, Named: false}}
	stage.do([]string{"join", "b", "s"})
	stage.do([]string{"list", "s", namespaces[true] + "/a#1:t", namespaces[false] + "/a#2:t"})
	var each []string
	(&Shelf{m: m}).Each(func(e stream.Digested, _ *stream.Subscription) { each = append(each, e.Object.Key) })
	if own := []string{stream.KeyOf(namespaces[true], "a")}; !slices.Equal(g.asked, own) || !slices.Equal(each, own) {
		t.Errorf("the guard decides about %q and sees %q", g.asked, each)
	}
	if whole, part := m.snapshot().Len(), event.Own(m.snapshot()).Len(); whole != 2 || part != 1 {
		t.Errorf("%d and %d objects", whole, part)
	}
	if m.division.own.Has(&stream.Object{Namespace: namespaces[false], Name: "b", UID: "3"}) {
		t.Error("an object of another shard that left the selectors is found here")
	}
}

// A stream that is wider than a binding is divided, too: each shard gets what the binding selects of its part, and nothing else.
func TestPartsOfAWideStream(t *testing.T) {
	for _, by := range []shard.By{shard.ByObject, shard.ByNamespace} {
		t.Run(string(by), func(t *testing.T) {
			s := newServer(1)
			s.sharded = by == shard.ByObject
			s.refuse = func(path string) *http.Response {
				if strings.Contains(path, "selfsubjectaccessreviews") {
					return respond(201, `{"status":{"allowed":true}}`)
				}
				return nil
			}
			divideWork(t, s, func(t *testing.T, r *replicas) {
				var selected []string
				for i := range 40 {
					selected = append(selected, fmt.Sprintf("team-%d", i))
				}
				h := dividedHook("wide", by, false)
				h.Kubernetes[0].Namespaces = inNamespaces(selected...)
				for i, w := range r.watchers {
					r.seen[i].start(w, h)
					if n := w.Streams(); n != 1 {
						t.Errorf("shard %d has %d streams", i, n)
					}
				}
				want := make([][]string, testShards)
				for i := range 120 {
					name := fmt.Sprintf("team-%d/c%d", i%60, i)
					s.write(name, false)
					if i%60 < len(selected) {
						owner := s.history[len(s.history)-1].owner(by)
						want[owner] = append(want[owner], fmt.Sprint("Added c", i))
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				for i := range r.watchers {
					if got := r.seen[i].events[h]; !slices.Equal(got, want[i]) {
						t.Errorf("shard %d received %q, want %q", i, got, want[i])
					}
				}
			})
		})
	}
}
