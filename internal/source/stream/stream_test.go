package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// eye is a consumer with or without a filter.
type eye struct {
	decoded, json bool
	filtered      []any
	outcome       func(verb string, err error)
	// changes receives changes, replaced lists.
	changes  func(Digested)
	replaced func([]Digested)
}

// ignore is for streams whose failures are not of interest.
func ignore(string) {}

func (e *eye) Needs() Needs {
	n := Needs{JSON: e.json}
	if e.decoded {
		filter, _ := jq.NewCompiler(jq.Options{}).Compile(".metadata.name")
		n.Filters = append(n.Filters, filter)
	}
	return n
}
func (e *eye) Held() func(key, uid, version string) *Object { return nil }
func (e *eye) Filter(_ context.Context, _ *Object, content *jq.Object) Filtered {
	e.filtered = append(e.filtered, content)
	return Filtered{Filtered: []byte("{}"), Done: true}
}
func (e *eye) Replace(_ *Subscription, entries []Digested) {
	if e.replaced != nil {
		e.replaced(entries)
	}
}
func (e *eye) Change(_ *Subscription, d Digested) {
	if e.changes != nil {
		e.changes(d)
	}
}
func (e *eye) Remove(*Subscription, *Object)       {}
func (e *eye) Dropped(*Subscription, int)          {}
func (e *eye) Reached(*Subscription, uint64, bool) {}

func (e *eye) Answered(_ *Subscription, verb string, err error) {
	if e.outcome != nil {
		e.outcome(verb, err)
	}
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
			var subs []*Subscription
			for _, e := range test.eyes {
				subs = append(subs, &Subscription{Consumer: e})
			}
			d := &digester{indexer: newIndexer(true), ctx: t.Context(), subs: func(uint64) []*Subscription { return subs }}
			a, err := d.digest([]byte(samplePod(1)), false)
			if err != nil {
				t.Fatal(err)
			}
			if keeps := a.JSON != nil; keeps != test.keeps {
				t.Errorf("keeps its JSON: %t", keeps)
			}
			var trees []any
			for i, e := range test.eyes {
				trees = append(trees, e.filtered...)
				if r := a.result(i); r.Done != e.decoded || (r.Filtered != nil) != e.decoded {
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
				if a.Name != fmt.Sprint(i) {
					t.Fatalf("%d objects: number %d is %s", n, i, a.Name)
				}
			}
		}
	}
}

// BenchmarkFirstList is the first list of a consumer with a filter, from the bytes to the results.
func BenchmarkFirstList(b *testing.B) {
	firstLists(b, `{name: .metadata.name, image: .spec.containers[0].image, phase: .status.phase}`)
}

// BenchmarkTenFilters is the first list of ten consumers with different filters.
func BenchmarkTenFilters(b *testing.B) {
	firstLists(b,
		".spec.nodeName", "{name: .metadata.name, phase: .status.phase}", ".metadata.labels | keys", ".metadata.labels",
		"[.spec.containers[].image]",
		".spec.containers | length", ".metadata.uid", ".metadata.labels | to_entries | map(select(.value | length < 100))",
		"{ns: .metadata.namespace, kind, created: .metadata.creationTimestamp}", "del(.spec, .metadata.managedFields)")
}

func firstLists(b *testing.B, filters ...string) {
	b.Helper()
	const n = 1000
	f := NewManual(true)
	compiler := jq.NewCompiler(jq.Options{})
	for _, text := range filters {
		filter, err := compiler.Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		f.Join(&Subscription{Consumer: &applied{program: filter}})
	}
	text := sampleList(n)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.DeliverList(b.Context(), strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
		f.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}

// applied is a consumer that applies a filter.
type applied struct {
	eye
	program *jq.Filter
}

func (a *applied) Needs() Needs { return Needs{Filters: []*jq.Filter{a.program}} }
func (a *applied) Filter(ctx context.Context, _ *Object, content *jq.Object) Filtered {
	result, err := a.program.ApplyTo(ctx, content)
	return Filtered{Filtered: result, Done: err == nil}
}

// Objects of other types, which the reflector does not deliver, are ignored.
func TestOtherObjects(t *testing.T) {
	f := NewManual(true)
	f.Join(&Subscription{Consumer: &eye{replaced: func(entries []Digested) {
		if len(entries) > 0 {
			t.Errorf("a list with %d objects", len(entries))
		}
	}, changes: func(Digested) { t.Error("a change is delivered") }}})
	f.BeginList()
	f.ctx = t.Context()
	for _, err := range []error{f.Replace([]any{"nonsense"}, "1"), f.Update("nonsense"), f.Delete("nonsense")} {
		if err != nil {
			t.Error(err)
		}
	}
	f.Wait()
}

// The changes that wait for a slow consumer are bounded. A list delivers the last state instead, which is not older than the dropped ones.
func TestQueueIsBounded(t *testing.T) {
	gate, entered, received := make(chan struct{}), make(chan struct{}, 1), make(chan string, 10)
	slow := &Subscription{Consumer: &eye{json: true, changes: func(d Digested) {
		entered <- struct{}{}
		<-gate
		received <- d.Object.Name
	}, replaced: func(entries []Digested) {
		for _, d := range entries {
			received <- d.Object.Name + "@" + d.Object.ResourceVersion
		}
	}}}
	f := NewManual(true)
	f.Join(slow)
	object := func(name string, v int) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},"text":%q}`, name, name, v,
			strings.Repeat("x", (len(name)-2)<<20))
	}
	list := func(v int, items string) *strings.Reader {
		return strings.NewReader(fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"items":[%s]}`, v, items))
	}
	if err := f.DeliverList(t.Context(), list(1, "")); err != nil {
		t.Fatal(err)
	}
	if err := f.DeliverChange(t.Context(), []byte(object("p0", 10)), false); err != nil {
		t.Fatal(err)
	}
	test.Receive(t, entered, "change")

	const n = 3 * queueBytes >> 20 / 2
	for v := 11; v < 11+n; v++ {
		if err := f.DeliverChange(t.Context(), []byte(object("big", v)), false); err != nil {
			t.Fatal(err)
		}
	}
	slow.mu.Lock()
	if !slow.waiting || slow.bytes > queueBytes {
		t.Errorf("waiting for a list: %t, with %d bytes", slow.waiting, slow.bytes)
	}
	slow.mu.Unlock()
	if consumers, at := f.Ask(); consumers != 1 || at != 10+n {
		t.Errorf("a list for %d consumers at version %d", consumers, at)
	}
	if slow.bytes != 0 || len(slow.queue) != 0 {
		t.Errorf("%d changes that the list contains are queued", len(slow.queue))
	}
	if err := f.DeliverLate(t.Context(), list(10+n, object("big", 10+n))); err != nil {
		t.Fatal(err)
	}
	close(gate)
	f.Wait()
	for _, want := range []string{"p0", fmt.Sprint("big@", 10+n)} {
		if got := test.Receive(t, received, "object"); got != want {
			t.Errorf("received %s, want %s", got, want)
		}
	}
	if len(received) > 0 || slow.bytes != 0 {
		t.Errorf("%d more objects, %d bytes in the queue", len(received), slow.bytes)
	}
}

// A request that we break off ourselves is no trouble of the API server.
func TestBrokenOffRequestsAreNotReported(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	client, err := kube.NewClient(testenv.Config(t, c.Kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	roles := Scope{GroupVersionResource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterroles"}}
	var reports []string
	f := &feed{stream: newStream(client, roles, ignore)}
	f.Join(&Subscription{Consumer: &eye{outcome: func(verb string, err error) {
		cancel() // between the answer and its body
		reports = append(reports, verb+" "+errorText(err))
	}}})
	_, err = f.ListWithContext(ctx, metav1.ListOptions{})
	if len(reports) != 1 || reports[0] != "list ok" {
		t.Errorf("reported %q (%v)", reports, err)
	}
	if _, err := f.WatchWithContext(ctx, metav1.ListOptions{}); err == nil || len(reports) != 1 {
		t.Errorf("a watch with a context that has ended: %v, reported %q", err, reports)
	}
}

func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
