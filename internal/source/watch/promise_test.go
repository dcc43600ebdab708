package watch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestNoGapNoOverlap checks the promise of this package with many changes, while hooks join and the connection breaks:
// the Synchronization plus the events equal the state of the cluster; each change is delivered once and in order.
func TestNoGapNoOverlap(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	o := observe(t, kubeconfig)
	write := newWriter(t, c, ns)

	same := hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns), JQFilter: ".metadata.labels.v"}
	var hooks []*hook.Hook
	var sets sync.Map
	var enabling sync.WaitGroup
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		if i%50 == 0 {
			h := bindings(fmt.Sprintf("hook-%d", i), same)
			hooks = append(hooks, h)
			enabling.Go(func() {
				if err := o.Enable(o.ctx, h, func(int, error) {}); err != nil {
					t.Error(err)
					return
				}
				o.Snapshot(h, 0)
				sets.Store(h, o.Synchronize(h, 0))
				o.Snapshot(h, 0)
				o.Unlock(h, 0)
			})
		}
		switch name := fmt.Sprintf("s%d", random.IntN(5)); {
		case random.IntN(4) == 0:
			write.delete(name)
		default:
			write.put(name, strconv.Itoa(random.IntN(3)))
		}
		if i%60 == 30 {
			proxy.Cut()
		}
		if i%60 == 45 {
			proxy.Restore()
		}
	}
	proxy.Restore()
	enabling.Wait()
	write.put("sentinel", "1")

	replays := map[*hook.Hook]*replay{}
	for _, h := range hooks {
		replays[h] = newReplay(t, h)
		set, _ := sets.Load(h)
		set.(event.Snapshot).Each(func(object event.Object) bool {
			replays[h].put(object)
			return true
		})
	}
	for left := len(hooks); left > 0; {
		ev := test.Receive(t, o.events, "event")
		if replays[ev.Hook].play(ev); ev.Object.Name == "sentinel" {
			left--
		}
	}
	for _, h := range hooks {
		there := newReplay(t, h)
		o.Snapshot(h, 0).Each(func(object event.Object) bool {
			there.put(object)
			return true
		})
		for name, is := range there.objects {
			if got := replays[h].objects[name]; got.filtered != is.filtered || got.uid != is.uid {
				t.Errorf("%s knows %s as %+v, it is %+v", h.Name, name, got, is)
			}
			if want := write.have[name]; want != is.filtered {
				t.Errorf("%s sees %s as %s, it is %s", h.Name, name, is.filtered, want)
			}
		}
		if len(there.objects) != len(replays[h].objects) || len(there.objects) != len(write.have) {
			t.Errorf("%s knows %v, sees %v, there are %v", h.Name, replays[h].objects, there.objects, write.have)
		}
	}
}

// replay is the state that a hook derives from its Synchronization and its events.
type replay struct {
	t       *testing.T
	hook    *hook.Hook
	objects map[string]known
	// newest is the highest version of each object that was delivered.
	newest map[string]int
}

type known struct{ uid, filtered string }

func newReplay(t *testing.T, h *hook.Hook) *replay {
	return &replay{t, h, map[string]known{}, map[string]int{}}
}

// put checks that an object is whole, and takes note of it.
func (r *replay) put(o event.Object) (version int) {
	full, err := o.Full.Bytes()
	if err != nil {
		r.t.Error(err)
	}
	filtered, err := o.Filtered.Bytes()
	if err != nil {
		r.t.Error(err)
	}
	var object struct {
		Kind, APIVersion string
		Metadata         struct {
			Name, UID, ResourceVersion string
			Labels                     struct{ V string }
		}
	}
	if err := json.Unmarshal(full, &object); err != nil {
		r.t.Errorf("%s: %v", full, err)
	}
	if object.Kind != "Secret" || object.APIVersion != "v1" || object.Metadata.Name != o.Name ||
		strconv.Quote(object.Metadata.Labels.V) != string(filtered) {
		r.t.Errorf("%s received %s with filter result %s", r.hook.Name, full, filtered)
	}
	r.objects[o.Name] = known{object.Metadata.UID, string(filtered)}
	version, _ = strconv.Atoi(object.Metadata.ResourceVersion)
	return version
}

func (r *replay) play(ev event.Event) {
	name := ev.Object.Name
	before, had := r.objects[name]
	version := r.put(ev.Object)
	now := r.objects[name]
	what := fmt.Sprintf("%s received %s %s %+v, its state was %+v", r.hook.Name, ev.Watch, name, now, before)
	switch ev.Watch {
	case event.Added:
		if had {
			r.t.Error(what)
		}
	case event.Modified:
		if !had || before.uid != now.uid || before.filtered == now.filtered {
			r.t.Error(what)
		}
	case event.Deleted:
		if !had || before != now {
			r.t.Error(what)
		}
		delete(r.objects, name)
	}
	// A deletion during an outage has the last version that was received.
	if version < r.newest[name] || ev.Watch != event.Deleted && version == r.newest[name] {
		r.t.Errorf("%s: version %d after %d", what, version, r.newest[name])
	}
	r.newest[name] = version
}

// writer changes Secrets, faster than kubectl.
type writer struct {
	t      *testing.T
	client rest.Interface
	path   string
	// have is the label of each Secret, as the filter prints it.
	have map[string]string
}

func newWriter(t *testing.T, c *testenv.Cluster, namespace string) *writer {
	t.Helper()
	return &writer{t, testenv.Client(t, c.Config(t)), "/api/v1/namespaces/" + namespace + "/secrets", map[string]string{}}
}

func (w *writer) put(name, value string) {
	w.t.Helper()
	method, path := http.MethodPost, w.path
	if w.have[name] != "" {
		method, path = http.MethodPut, w.path+"/"+name
	}
	body := fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":%q,"labels":{"v":%q}}}`, name, value)
	if err := w.client.Verb(method).AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(w.t.Context()).
		Error(); err != nil {
		w.t.Fatal(err)
	}
	w.have[name] = strconv.Quote(value)
}

func (w *writer) delete(name string) {
	w.t.Helper()
	if w.have[name] == "" {
		return
	}
	if err := w.client.Delete().AbsPath(w.path + "/" + name).Do(w.t.Context()).Error(); err != nil {
		w.t.Fatal(err)
	}
	delete(w.have, name)
}
