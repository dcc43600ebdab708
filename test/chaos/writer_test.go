package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// place is where objects of one kind live.
type place struct {
	resource schema.GroupVersionResource
	kind     string
	in       string // a namespace
}

func (p place) apiVersion() string { return p.resource.GroupVersion().String() }

// writer changes objects by a random plan that follows from its seed, and records their history: it is the only writer,
// each write names the state that it expects, and after a write with a lost response it reads the object.
type writer struct {
	client dynamic.Interface
	random *rand.Rand
	// pause is the time between two writes.
	pause time.Duration

	// mu is held for the time of a write.
	mu     sync.Mutex
	places []place
	// now is the last known state of each object; deleted ones are missing.
	now map[string]known
	// count is never used twice.
	count   int
	happens history
	// text is in each ConfigMap, if it is not empty.
	text string

	end     context.CancelFunc
	writing sync.WaitGroup
}

type known struct{ uid, version string }

func newWriter(client dynamic.Interface, random *rand.Rand, places ...place) *writer {
	return &writer{client: client, random: random, pause: 10 * time.Millisecond, places: places, now: map[string]known{}, happens: history{}}
}

// start writes until stop.
func (w *writer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	w.writing.Go(func() {
		for ctx.Err() == nil {
			w.mu.Lock()
			w.step(ctx)
			w.mu.Unlock()
			sleep(ctx, w.pause)
		}
	})
}

// stop returns when nothing is being written any more. An API server that is away is waited for.
func (w *writer) stop() {
	if w.end != nil {
		w.end()
		w.writing.Wait()
		w.end = nil
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// stir writes so many times.
func (w *writer) stir(times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range times {
		w.step(context.Background())
	}
}

// barrier writes, everywhere, an object that comes last in every order, and returns the count of the last one.
func (w *writer) barrier() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]int{}
	for _, p := range w.places {
		w.put(p, barrierName)
		counts[p.kind+"/"+p.in+"/"+barrierName] = w.count
	}
	return counts
}

const barrierName = "zz-barrier"

// step makes one change: of ten, seven changes, one removal, and two removals with a new object of the same name.
func (w *writer) step(ctx context.Context) {
	if len(w.places) == 0 {
		return
	}
	p := w.places[w.random.IntN(len(w.places))]
	name := fmt.Sprintf("object-%d", w.random.IntN(8))
	switch w.random.IntN(10) {
	case 0:
		w.remove(p, name)
	case 1, 2:
		w.remove(p, name)
		w.put(p, name)
	default:
		w.put(p, name)
	}
}

// lengthen puts a text into ConfigMaps from now on.
func (w *writer) lengthen(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = strings.Repeat("x", bytes)
}

func (p place) key(name string) string { return p.kind + "/" + p.in + "/" + name }

func (w *writer) of(p place) dynamic.ResourceInterface {
	return w.client.Resource(p.resource).Namespace(p.in)
}

// request has time to be answered, but not for ever: a server that was stopped in the middle answers nothing.
func request() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

func (w *writer) put(p place, name string) {
	began := time.Now()
	for {
		w.count++
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": p.apiVersion(), "kind": p.kind,
			"metadata": map[string]any{"name": name, "namespace": p.in, "annotations": map[string]any{"count": strconv.Itoa(w.count)}},
		}}
		if w.text != "" && p.kind == "ConfigMap" {
			o.Object["data"] = map[string]any{"text": w.text}
		}
		before, exists := w.now[p.key(name)]
		var after *unstructured.Unstructured
		var err error
		ctx, cancel := request()
		if exists {
			o.SetResourceVersion(before.version)
			o.SetUID("")
			after, err = w.of(p).Update(ctx, o, metav1.UpdateOptions{})
		} else {
			after, err = w.of(p).Create(ctx, o, metav1.CreateOptions{})
		}
		cancel()
		if err == nil {
			w.note(p, name, after, began)
			return
		}
		if w.look(p, name, began) {
			return
		}
	}
}

func (w *writer) remove(p place, name string) {
	began := time.Now()
	for {
		before, exists := w.now[p.key(name)]
		if !exists {
			return
		}
		ctx, cancel := request()
		err := w.of(p).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &before.version}})
		cancel()
		if err == nil {
			w.note(p, name, nil, began)
			return
		}
		if w.look(p, name, began) {
			return
		}
	}
}

// look reads an object after a failed write, and reports whether the write had an effect nevertheless.
func (w *writer) look(p place, name string, began time.Time) bool {
	for {
		ctx, cancel := request()
		o, err := w.of(p).Get(ctx, name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err):
			_, existed := w.now[p.key(name)]
			if existed {
				w.note(p, name, nil, began)
			}
			return existed
		case err == nil:
			if w.now[p.key(name)].version == o.GetResourceVersion() {
				return false
			}
			w.note(p, name, o, began)
			return true
		}
		time.Sleep(100 * time.Millisecond) // the API server sends no notification when it is back
	}
}

// note adds a state to the history of an object; nil means deleted.
func (w *writer) note(p place, name string, o *unstructured.Unstructured, began time.Time) {
	k := p.key(name)
	v := version{began: began, known: time.Now(), gone: o == nil}
	if o == nil {
		all := w.happens[k]
		v.uid, v.count = all[len(all)-1].uid, all[len(all)-1].count
		delete(w.now, k)
	} else {
		v.uid = string(o.GetUID())
		v.count, _ = strconv.Atoi(o.GetAnnotations()["count"])
		w.now[k] = known{v.uid, o.GetResourceVersion()}
	}
	w.happens[k] = append(w.happens[k], v)
}

// leave stops writing to a place and records everything there as deleted, once do has removed it.
func (w *writer) leave(kind string, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	do()
	for _, p := range w.places {
		if p.kind != kind {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(w.now)) {
			if name, here := strings.CutPrefix(k, p.key("")); here {
				w.note(p, name, nil, began)
			}
		}
	}
	w.places = slices.DeleteFunc(w.places, func(p place) bool { return p.kind == kind })
}

// enter begins to write to one more place.
func (w *writer) enter(p place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places = append(w.places, p)
}

// history returns what has happened so far.
func (w *writer) history() history {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := history{}
	for k, all := range w.happens {
		h[k] = slices.Clone(all)
	}
	return h
}

// verify compares the writer's own story with the API server's: the checker is worth as much as this one is true.
func (w *writer) verify(ctx context.Context) (wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.places {
		list, err := w.of(p).List(ctx, metav1.ListOptions{})
		if err != nil {
			return []string{"cannot list: " + err.Error()}
		}
		there := map[string]known{}
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "object-") || o.GetName() == barrierName {
				there[p.key(o.GetName())] = known{string(o.GetUID()), o.GetResourceVersion()}
			}
		}
		ours := maps.Clone(w.now)
		maps.DeleteFunc(ours, func(k string, _ known) bool { return !strings.HasPrefix(k, p.key("")) })
		if !maps.Equal(there, ours) {
			wrong = append(wrong, fmt.Sprintf("the test's own story is wrong: the API server has %v, the writer %v", there, ours))
		}
	}
	return wrong
}
