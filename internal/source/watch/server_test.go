package watch

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
)

// server is a model of an API server with ConfigMaps in one namespace. It keeps all versions, and answers after random delays.
type server struct {
	random *rand.Rand

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each change
	history []revision    // its index plus one is the version
	// oldest is the oldest version that a watch or an exact list may begin with.
	oldest int
	// cuts counts how often all watches were ended, setbacks how often the server lost what it had.
	cuts, setbacks int

	opaque bool    // versions are no numbers
	listed *string // is the version of lists, unless it is nil
	// requests are all lists and watches.
	requests []string
	// refuse fails requests.
	refuse func(path string) *http.Response
	// sharded: the server applies shard selectors.
	sharded bool
}

type revision struct {
	name string
	uid  int
	// made is the number of setbacks before the object was created.
	made    int
	deleted bool
}

// uidText is a uid that no other object has, also after versions were used twice.
func (r revision) uidText() string {
	if r.made == 0 {
		return strconv.Itoa(r.uid)
	}
	return fmt.Sprint(r.uid, "-", r.made)
}

func newServer(seed uint64) *server {
	return &server{random: rand.New(rand.NewPCG(seed, 1)), changed: make(chan struct{}), history: []revision{{name: "first", uid: 1}}}
}

// write makes a version.
func (s *server) write(name string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := revision{name, len(s.history) + 1, s.setbacks, deleted}
	if old, ok := s.at(len(s.history))[name]; ok {
		r.uid, r.made = s.history[old-1].uid, s.history[old-1].made
	} else if deleted {
		return
	}
	s.history = append(s.history, r)
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact ends all watches, and forgets what they would need.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest = len(s.history)
	close(s.changed)
	s.changed = make(chan struct{})
}

// cut ends all watches.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	close(s.changed)
	s.changed = make(chan struct{})
}

// setBack restores an older state, whose version is lower.
func (s *server) setBack(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = s.history[:max(version, s.oldest, 1)]
	s.setbacks++
	s.cuts++
	close(s.changed)
	s.changed = make(chan struct{})
}

// at returns the versions of the objects at a version. It requires mu.
func (s *server) at(version int) map[string]int {
	objects := map[string]int{}
	for i, r := range s.history[:version] {
		if objects[r.name] = i + 1; r.deleted {
			delete(objects, r.name)
		}
	}
	return objects
}

func (s *server) text(version int) string {
	if s.opaque {
		return fmt.Sprintf("v%d", version)
	}
	return strconv.Itoa(version)
}

func (s *server) json(version int) string {
	r := s.history[version-1]
	namespace, name := r.key()
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q}}`, name,
		namespace, r.uidText(), s.text(version))
}

// key returns the namespace and name of an object: a and b for a/b.
func (r revision) key() (namespace, name string) {
	if namespace, name, ok := strings.Cut(r.name, "/"); ok {
		return namespace, name
	}
	return "n", r.name
}

// selects reports whether a shard selector selects an object.
func (s *server) selects(selector string, version int) bool {
	var from, to string
	if n, _ := fmt.Sscanf(selector, "shardRange(object.metadata.uid, '%18s', '%s", &from, &to); !s.sharded || n < 2 {
		return true
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.history[version-1].uidText())
	hash, to := fmt.Sprintf("0x%016x", h.Sum64()), strings.TrimSuffix(to, "')")
	return hash >= from && (len(to) > len(hash) || hash < to)
}

func (s *server) sleep(ctx context.Context) {
	s.mu.Lock()
	d := time.Duration(s.random.IntN(20)) * time.Millisecond
	s.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	s.mu.Lock()
	s.requests = append(s.requests, req.URL.Path+" "+q.Get("watch")+q.Get("resourceVersionMatch"))
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		if answer := refuse(req.URL.Path); answer != nil {
			return answer, nil
		}
	}
	switch {
	case req.URL.Path == "/api/v1":
		return respond(200, `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}`), nil
	case q.Get("watch") != "":
		from, _ := strconv.Atoi(strings.TrimPrefix(q.Get("resourceVersion"), "v"))
		reader, writer := io.Pipe()
		context.AfterFunc(req.Context(), func() { reader.Close() })
		go s.watch(req.Context(), from, q.Get("shardSelector"), writer)
		answer := respond(200, "")
		answer.Body = reader
		return answer, nil
	}
	s.sleep(req.Context())
	s.mu.Lock()
	version := len(s.history)
	switch at, _ := strconv.Atoi(q.Get("resourceVersion")); {
	case at > version:
		s.mu.Unlock()
		return respond(504, tooLarge), nil
	case q.Get("resourceVersionMatch") == "Exact":
		version = at
	case q.Get("resourceVersionMatch") == "NotOlderThan": // from a cache that may lag behind
		version = at + s.random.IntN(version-at+1)
	}
	if version < s.oldest {
		s.mu.Unlock()
		return respond(410, gone), nil
	}
	var items []string
	for _, v := range s.at(version) {
		if s.selects(q.Get("shardSelector"), v) {
			items = append(items, s.json(v))
		}
	}
	listed := s.text(version)
	if s.listed != nil {
		listed = *s.listed
	}
	text := fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, listed,
		strings.Join(items, ","))
	s.mu.Unlock()
	s.sleep(req.Context())
	return respond(200, text), nil
}

func (s *server) watch(ctx context.Context, from int, selector string, body *io.PipeWriter) {
	defer body.Close()
	s.mu.Lock()
	cuts := s.cuts
	s.mu.Unlock()
	for at, began := from, from; ; {
		s.mu.Lock()
		text, changed := "", s.changed
		switch {
		case s.cuts != cuts:
			s.mu.Unlock()
			return
		case (at < s.oldest || at > len(s.history)) && at == began:
			text = `{"type":"ERROR","object":` + gone + `}`
		case at < s.oldest:
			s.mu.Unlock()
			return // the next watch gets it
		case at < len(s.history):
			if at++; !s.selects(selector, at) {
				s.mu.Unlock()
				continue
			}
			kind := "MODIFIED"
			if r := s.history[at-1]; r.deleted {
				kind = "DELETED"
			} else if r.uid == at {
				kind = "ADDED"
			}
			text = fmt.Sprintf(`{"type":%q,"object":%s}`, kind, s.json(at))
		}
		s.mu.Unlock()
		if text == "" {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		s.sleep(ctx)
		if _, err := io.WriteString(body, text+"\n"); err != nil || strings.Contains(text, "ERROR") {
			return
		}
	}
}

const tooLarge = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,"details":{` +
	`"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}`

const gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body))}
}

// count returns the number of requests of a kind so far.
func (s *server) count(request string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasSuffix(r, " "+request) {
			n++
		}
	}
	return n
}

// witness is a Sink that checks what each hook receives: an object is added before it is modified or deleted, and each version is newer.
type witness struct {
	silence
	t      *testing.T
	mu     sync.Mutex
	known  map[*hook.Hook]map[string]bool
	events map[*hook.Hook][]string
}

func (w *witness) Event(ev event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.known[ev.Hook]
	if known[ev.Object.Name] != (ev.Watch != event.Added) {
		w.t.Errorf("hook %s received %s %s after %q", ev.Hook.Name, ev.Watch, ev.Object.Name, w.events[ev.Hook])
	}
	known[ev.Object.Name] = ev.Watch != event.Deleted
	w.events[ev.Hook] = append(w.events[ev.Hook], ev.Watch.String()+" "+ev.Object.Name)
}

// follow runs a Watcher on a model server, in a bubble.
func follow(t *testing.T, s *server, test func(w *Watcher, seen *witness)) {
	followThrough(t, s, s, test)
}

// followThrough sends the requests through a transport.
func followThrough(t *testing.T, s *server, transport http.RoundTripper, test func(w *Watcher, seen *witness)) {
	synctest.Test(t, func(t *testing.T) {
		seen := &witness{t: t, known: map[*hook.Hook]map[string]bool{}, events: map[*hook.Hook][]string{}}
		w, err := New(Options{
			Config: &rest.Config{Host: "http://api.example.com", Transport: transport, QPS: -1}, JQ: jq.NewCompiler(jq.Options{}), Sink: seen,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.changed = make(chan struct{}) // belongs to the bubble
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		test(w, seen)
		cancel()
		running.Wait()
	})
}

// enter enables a hook for the ConfigMaps, delivers its Synchronization and unlocks it.
func (w *witness) enter(watcher *Watcher, name string, resync time.Duration) *hook.Hook {
	return w.enable(watcher, bindings(name, hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"),
		Resync: resync}))
}

func (w *witness) enable(watcher *Watcher, h *hook.Hook) *hook.Hook {
	if err := watcher.Enable(w.t.Context(), h, func(int, error) {}); err != nil {
		w.t.Error(err)
	}
	known := map[string]bool{}
	for o := range watcher.Synchronize(h, 0).Each {
		known[o.Name] = true
	}
	w.mu.Lock()
	w.known[h] = known
	w.mu.Unlock()
	watcher.Unlock(h, 0)
	return h
}

// bindings returns a hook. Each binding wants all events and keeps full objects.
func bindings(name string, all ...hook.Kubernetes) *hook.Hook {
	for i := range all {
		b := &all[i]
		b.Added, b.Modified, b.Deleted, b.KeepFullObjects = true, true, true, true
		b.Name = fmt.Sprintf("binding-%d", i)
	}
	return &hook.Hook{Name: name, Kubernetes: all}
}

// inNamespaces is a restriction to some namespaces.
func inNamespaces(names ...string) hook.Namespaces {
	return hook.Namespaces{Names: slices.Sorted(slices.Values(names))}
}

// While hooks join and leave, some with relists, a hook that stays receives every single change. Its watch is never interrupted.
func TestNothingIsMissed(t *testing.T) {
	seeds := uint64(2)
	if test.Long() {
		seeds = 20
	}
	for seed := range seeds {
		s, random := newServer(seed), rand.New(rand.NewPCG(seed, 2))
		follow(t, s, func(w *Watcher, seen *witness) {
			stays := seen.enter(w, "stays", 0)
			var others sync.WaitGroup
			for i := range 150 {
				name := fmt.Sprintf("c%d", random.IntN(4))
				s.write(name, random.IntN(2) == 0)
				s.write(fmt.Sprintf("short-%d", i), false)
				s.write(fmt.Sprintf("short-%d", i), true)
				if i%7 == 0 {
					others.Go(func() {
						h := seen.enter(w, fmt.Sprint("other ", i), time.Duration(i%3)*20*time.Millisecond)
						time.Sleep(40 * time.Millisecond)
						if i%2 == 0 {
							w.Disable(h, 0)
						}
					})
				}
				time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
			}
			others.Wait()
			time.Sleep(time.Minute) // the watch is delayed
			synctest.Wait()
			var want []string
			for i, r := range s.history[1:] {
				switch {
				case r.deleted:
					want = append(want, "Deleted "+r.name)
				case r.uid == i+2:
					want = append(want, "Added "+r.name)
				default:
					want = append(want, "Modified "+r.name)
				}
			}
			if got := seen.events[stays]; !slices.Equal(got, want) {
				t.Errorf("seed %d: the hook that stays received %d events of %d", seed, len(got), len(want))
			}
			for h, known := range seen.known {
				if got := w.Snapshot(h, 0).Len(); got > 0 && got != len(s.at(len(s.history))) {
					t.Errorf("seed %d: %s sees %d objects", seed, h.Name, got)
				}
				for name, is := range known {
					if _, there := s.at(len(s.history))[name]; w.monitor(h, 0) != nil && is != there {
						t.Errorf("seed %d: %s knows %s: %t", seed, h.Name, name, is)
					}
				}
			}
			if s.count("NotOlderThan") == 0 {
				t.Errorf("seed %d: no list for joining hooks", seed)
			}
		})
	}
}

// A binding with a period of relists has a watch of its own, and gets the differences.
func TestRelists(t *testing.T) {
	s := newServer(1)
	follow(t, s, func(w *Watcher, seen *witness) {
		h := seen.enter(w, "relists", time.Minute)
		seen.enter(w, "other", 0)
		time.Sleep(10*time.Minute + time.Second)
		s.write("second", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if lists := s.count(""); lists < 12 || w.Streams() != 2 {
			t.Errorf("%d lists in %d streams", lists, w.Streams())
		}
		if got := seen.events[h]; !slices.Equal(got, []string{"Added second"}) {
			t.Errorf("received %q", got)
		}
	})
}

// With watches that expire, or versions that cannot be compared, hooks that join still receive a consistent sequence and the last state.
func TestLastStateIsDelivered(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		for seed := range uint64(5) {
			s, random := newServer(seed), rand.New(rand.NewPCG(seed, 2))
			s.opaque = opaque
			follow(t, s, func(w *Watcher, seen *witness) {
				var joining sync.WaitGroup
				for i := range 100 {
					s.write(fmt.Sprintf("c%d", random.IntN(6)), random.IntN(2) == 0)
					if random.IntN(10) == 0 {
						s.compact()
					}
					if i%10 == 0 {
						joining.Go(func() { seen.enter(w, fmt.Sprint(i), 0) })
					}
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
				joining.Wait()
				time.Sleep(time.Minute)
				synctest.Wait()
				there := s.at(len(s.history))
				for h, known := range seen.known {
					for name := range known {
						if _, is := there[name]; known[name] != is {
							t.Errorf("seed %d: hook %s knows %s: %t", seed, h.Name, name, known[name])
						}
					}
					if n := w.Snapshot(h, 0).Len(); n != len(there) {
						t.Errorf("seed %d: hook %s sees %d objects of %d", seed, h.Name, n, len(there))
					}
				}
			})
		}
	}
}
