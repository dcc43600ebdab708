package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/installed"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// kindServer serves the objects of a model server as the kind Thing of example.com/v1, which comes and goes.
type kindServer struct {
	*server
	namespaces *server
	// is has an element of kindStates, crd of crdStates.
	is, crd, forbidden atomic.Value
}

// kindStates are how the kind can be served: as things in namespaces, not, with errors, by a discovery that fails in part, by discovery
// only, in another version only, cluster-scoped, with another plural.
var kindStates = []string{"installed", "missing", "failing", "partial", "unlisted", "version", "scope", "plural"}

func newKindServer(seed uint64, crd string) *kindServer {
	k := &kindServer{server: newServer(seed), namespaces: newServer(seed)}
	k.namespaces.history[0].name = "n"
	k.is.Store("missing")
	k.crd.Store(crd)
	k.forbidden.Store(false)
	return k
}

func (k *kindServer) set(state string) {
	k.is.Store(state)
	k.cut()
}

func (k *kindServer) RoundTrip(r *http.Request) (*http.Response, error) {
	is, path := k.is.Load().(string), strings.TrimSuffix(r.URL.Path, "/")
	status := func(code int, reason, details string) (*http.Response, error) {
		return respond(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"details":{%s}}`,
			reason, code, details)), nil
	}
	if is == "failing" {
		return status(503, "ServiceUnavailable", "")
	}
	version, plural, collection := "v1", "things", "namespaces/n/things"
	switch is {
	case "version":
		version = "v2"
	case "scope":
		collection = "things"
	case "plural":
		plural, collection = "gizmos", "namespaces/n/gizmos"
	}
	isServed := is != "missing" && is != "partial"
	rest, inGroup := strings.CutPrefix(path, "/apis/example.com/")
	name, isCRD := strings.CutPrefix(path, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/")
	switch {
	case path == "/api/v1/namespaces":
		return k.namespaces.RoundTrip(r)
	case strings.HasPrefix(path, "/api/v1/namespaces/"):
		return respond(200, "{}"), nil
	case path == "/apis" && is == "partial":
		return status(503, "ServiceUnavailable", "")
	case path == "/apis" && isServed:
		return respond(200, fmt.Sprintf(`{"groups":[{"name":"example.com","versions":[{"groupVersion":"example.com/%s"}],`+
			`"preferredVersion":{"groupVersion":"example.com/%[1]s"}}]}`, version)), nil
	case path == "/apis":
		return respond(200, `{"groups":[]}`), nil
	case isCRD && k.crd.Load() == "forbidden":
		return status(403, "Forbidden", "")
	case isCRD && k.crd.Load() == "deleting":
		return respond(200, `{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}`), nil
	case isCRD && (k.crd.Load() == "stays" || isServed && name == plural+".example.com"):
		return respond(200, "{}"), nil
	case isServed && rest == version:
		return respond(200, fmt.Sprintf(`{"resources":[{"name":%q,"kind":"Thing","namespaced":%t,"verbs":["list","watch"]}]}`, plural,
			is != "scope")), nil
	case isServed && inGroup && is != "unlisted" && (rest == version+"/"+collection || rest == version+"/"+plural):
		if k.forbidden.Load() == true {
			return status(403, "Forbidden", "")
		}
		return k.server.RoundTrip(r)
	}
	return status(404, "NotFound", map[bool]string{false: `"causes":[{"reason":"UnexpectedServerResponse"}]`}[isCRD])
}

// optionalStage is a hook with an optional binding. It is the sink, and has the queue of the hook.
type optionalStage struct {
	silence
	*Watcher
	t       *testing.T
	server  *kindServer
	binding hook.Kubernetes
	hook    *hook.Hook
	end     context.CancelFunc
	ended   sync.WaitGroup

	mu       sync.Mutex
	happened []string
	queue    []event.Event
}

func playOptional(t *testing.T, k *kindServer, play func(o *optionalStage)) {
	synctest.Test(t, func(t *testing.T) {
		o := &optionalStage{t: t, server: k, end: func() {}}
		o.binding = hook.Kubernetes{APIVersion: "example.com/v1", Kind: "Thing", Namespaces: inNamespaces("n"), Optional: true,
			Lanes: hook.Lanes{Key: "object", Concurrency: 1}}
		log := slog.New(allSayer{sayer{slog.DiscardHandler, func(r slog.Record) {
			text := r.Message
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == "served" || a.Key == "resource" {
					text += ", " + a.String()
				}
				return true
			})
			if strings.HasPrefix(text, "The kind") {
				o.note("log: " + text)
			}
		}}})
		var err error
		if o.Watcher, err = New(Options{Config: &rest.Config{Host: "http://api.example.com", Transport: k, QPS: -1},
			JQ: jq.NewCompiler(jq.Options{}), Sink: o, Log: log}); err != nil {
			t.Fatal(err)
		}
		k.server.changed, k.namespaces.changed = make(chan struct{}), make(chan struct{}) // belong to the bubble
		ctx, cancel := context.WithCancel(t.Context())
		o.ended.Go(func() { _ = o.Run(ctx) })
		play(o)
		o.end()
		if o.hook != nil {
			o.Mute(o.hook)
			o.Disable(o.hook, 0)
		}
		if o.Streams() > 0 || len(o.monitors) > 0 {
			t.Errorf("%d streams and %d monitors are left", o.Streams(), len(o.monitors))
		}
		cancel()
		o.ended.Wait()
	})
}

// allSayer hands on the records of loggers with attributes, too.
type allSayer struct{ sayer }

func (s allSayer) WithAttrs(more []slog.Attr) slog.Handler {
	return allSayer{sayer{s.Handler, func(r slog.Record) {
		r.AddAttrs(more...)
		s.say(r)
	}}}
}

func (o *optionalStage) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.happened = append(o.happened, text+"\n")
}

func (o *optionalStage) Event(ev event.Event) {
	text := ev.Watch.String() + " " + ev.Key
	if ev.Initial {
		text += " (initial)"
	}
	o.note(text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, ev)
}

// enable begins what a start, a reload or the end of a pause begins, for a new version of the hook if there is none.
func (o *optionalStage) enable(done func(error)) {
	if o.hook == nil {
		o.hook = bindings("h", o.binding)
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	o.end = cancel
	h := o.hook
	o.ended.Go(func() {
		var last atomic.Value
		last.Store("")
		done(o.Enable(ctx, h, func(_ int, err error) {
			if err != nil && !errors.Is(err, installed.ErrMissing) && last.Swap(err.Error()) != err.Error() {
				o.note("stuck: " + err.Error())
			}
		}))
	})
}

// pause ends the events of the hook, as the beginning of a reload does.
func (o *optionalStage) pause() {
	o.end()
	o.Mute(o.hook)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = nil
}

func (o *optionalStage) objects() (names []string) {
	for object := range event.Own(o.Synchronize(o.hook, 0)).Each {
		names = append(names, object.Name)
	}
	return names
}

// TestOptionalKind runs the scripts in testdata/optional. Each begins without the kind. Commands are:
//
//	binding OPTION...  before enable: all, labels (of namespaces; they are n otherwise), required (not optional), group, none (no events)
//	crd STATE          forbidden, stays (whatever is served), deleting; otherwise it comes and goes with the kind
//	kind STATE         of kindStates
//	forbid, grant      the permission to list
//	write, delete NAME an object, of whatever the kind is
//	wait TIME
//	standby, lead      the operator
//	shards             objects are divided by namespace; this replica has shard 0 of 2
//	enable             the hook starts, or is resumed
//	begin              its Synchronization run begins
//	succeed            it ends
//	written            a run of a hook has written an object of the kind
//	pause              the hook
//	reload             its next version starts
//	state              shows what is known
func TestOptionalKind(t *testing.T) {
	golden.Scripts(t, "testdata/optional/*.txt", func(t *testing.T, script string) (result string) {
		playOptional(t, newKindServer(1, ""), func(o *optionalStage) {
			result = golden.Blocks(script, o.do, func() string {
				synctest.Wait()
				o.mu.Lock()
				defer o.mu.Unlock()
				all := strings.Join(o.happened, "")
				o.happened = nil
				return all
			})
		})
		return result
	})
}

func (o *optionalStage) do(words []string) {
	switch command, args := words[0], words[1:]; command {
	case "binding":
		for _, option := range args {
			switch option {
			case "all":
				o.binding.Namespaces = hook.Namespaces{}
			case "labels":
				o.binding.Namespaces = hook.Namespaces{ByLabels: true, Labels: "a=b"}
			case "group":
				o.binding.Group = "g"
			case "required":
				o.binding.Optional = false
			case "none":
				o.hook = bindings("h", o.binding)
				o.hook.Kubernetes[0].Added, o.hook.Kubernetes[0].Modified, o.hook.Kubernetes[0].Deleted = false, false, false
			}
		}
	case "crd":
		o.server.crd.Store(args[0])
	case "kind":
		o.server.set(args[0])
	case "forbid", "grant":
		o.server.forbidden.Store(command == "forbid")
		o.server.cut()
	case "write", "delete":
		o.server.write(args[0], command == "delete")
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			o.t.Fatal(err)
		}
		time.Sleep(d)
	case "standby":
		o.opts.Standby, o.resting = true, true
	case "lead":
		o.Lead()
	case "shards":
		o.opts.Shards = 2
		o.Take(shard.Shard{Index: 0, Count: 2})
		o.hook = bindings("h", o.binding)
		o.hook.Settings.ShardBy = shard.ByNamespace
	case "enable":
		o.enable(func(err error) {
			if err == nil {
				o.note("enabled")
			}
		})
	case "begin":
		o.note("begins with " + fmt.Sprint(o.objects()))
	case "succeed":
		o.Unlock(o.hook, 0)
	case "written":
		o.Delivers(&hook.Hook{}, effect.Answered{Group: "example.com", Resource: "things", Kind: "Thing"})
	case "pause":
		o.pause()
	case "reload":
		old := o.hook
		o.pause()
		o.hook = nil
		o.enable(func(err error) {
			o.Disable(old, 0)
			if err == nil {
				o.note("enabled")
			}
		})
	case "state":
		synctest.Wait()
		s, m := o.State(o.hook, 0), o.monitor(o.hook, 0)
		o.note(fmt.Sprintf("%d objects, %d held, not installed: %t, events of shard: %t", s.Objects.Len(), s.Held, s.NotInstalled,
			m != nil && m.division.events() != stream.Everything))
		for _, text := range s.Troubles {
			o.note("trouble: " + text)
		}
	default:
		o.t.Fatalf("unknown command %q", command)
	}
	synctest.Wait()
}

// A subscription that a follower makes of a namespace while the kind goes is not awaited, and gets no stream.
func TestAbandonedParent(t *testing.T) {
	m := silentMonitor(hook.Kubernetes{})
	root := &stream.Subscription{}
	namespaces := &stream.Subscription{}
	if !m.expect(root, source{}) || !m.expect(namespaces, source{parent: root}) ||
		!m.expect(&stream.Subscription{}, source{parent: namespaces}) {
		t.Fatal("a subscription is not awaited")
	}
	if left := m.abandon(root); len(left) != 3 || len(m.subs) > 0 || m.awaited > 0 {
		t.Errorf("%d subscriptions are left, %d stay, %d are awaited", len(left), len(m.subs), m.awaited)
	}
	if m.expect(&stream.Subscription{}, source{parent: namespaces}) {
		t.Error("a subscription of an abandoned one is awaited")
	}
}

// TestOptionalKindModel plays random sequences: the kind is served in any way, objects come and go, the runs of the hook fail, its queue is
// held up, it is paused and reloaded. Whatever happens, the hook gets nothing that contradicts what it knows, no object leaves a snapshot
// before its kind is gone beyond doubt, and in the end the hook knows what the cluster has.
func TestOptionalKindModel(t *testing.T) {
	seeds := uint64(30)
	if test.Long() {
		seeds = 500
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		k := newKindServer(seed, []string{"", "forbidden"}[seed%2])
		playOptional(t, k, func(o *optionalStage) {
			o.binding.Namespaces = []hook.Namespaces{inNamespaces("n"), {}, {ByLabels: true, Labels: "a=b"}}[random.IntN(3)]
			m := &optionalModel{optionalStage: o, random: random, state: "missing"}
			stop := make(chan struct{})
			o.ended.Go(func() { m.work(stop, rand.New(rand.NewPCG(seed, 8))) })
			defer close(stop)
			m.start()
			for range 50 {
				m.step()
				m.check()
				if t.Failed() {
					t.Fatalf("seed %d: %s", seed, strings.Join(m.story, ", "))
				}
			}
			m.settle()
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, strings.Join(m.story, ", "))
			}
		})
	}
}

type optionalModel struct {
	*optionalStage
	random *rand.Rand
	story  []string
	// state is how the kind is served since a time; if that is not at all, missing since another one. had: the snapshot had the object that
	// always exists.
	state          string
	since, missing time.Time
	had            bool
	// listed: it was installed when it was served last, and that was noticed.
	listed bool
	// paused is of the driver. The others belong to optionalStage.mu: version counts starts, known are the objects that the hook knows.
	paused        bool
	version       int
	synchronizes  bool
	heldUp, fails bool
	known         map[string]bool
}

func (m *optionalModel) start() {
	m.mu.Lock()
	m.version++
	version := m.version
	m.synchronizes, m.paused, m.had = false, false, false
	m.mu.Unlock()
	m.enable(func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.synchronizes = err == nil && m.version == version
		if err == nil && m.Snapshot(m.hook, 0).Len() == 0 && !m.mayBeMissing() {
			m.t.Errorf("started without objects %s after %s", time.Since(m.since), m.state)
		}
	})
}

// mayBeMissing reports whether a start may find that the kind is not installed, perhaps by a read from before the last change.
func (m *optionalModel) mayBeMissing() bool {
	return m.state == "missing" || m.state == "version" || time.Since(m.since) <= installed.Doubtful+time.Second
}

func (m *optionalModel) step() {
	action := m.random.IntN(12)
	switch {
	case action < 5:
		state := kindStates[m.random.IntN(len(kindStates))]
		if state == m.state {
			return
		}
		m.serve(state)
	case action < 7:
		name, isDeletion := fmt.Sprint("c", m.random.IntN(3)), m.random.IntN(2) == 0
		m.server.write(name, isDeletion)
		m.tell(fmt.Sprintf("%s %t", name, !isDeletion))
	case action == 7:
		m.mu.Lock()
		m.heldUp = !m.heldUp
		m.mu.Unlock()
		m.tell(fmt.Sprintf("held up %t", m.heldUp))
	case action == 8:
		m.mu.Lock()
		m.fails = !m.fails
		m.mu.Unlock()
		m.tell(fmt.Sprintf("fails %t", m.fails))
	case action == 9 && m.paused:
		m.tell("resume")
		m.start()
	case action == 9:
		m.tell("pause")
		m.halt()
	case action == 10:
		m.tell("reload")
		old := m.hook
		m.halt()
		m.hook = nil
		m.start()
		m.Disable(old, 0)
	default:
		m.Delivers(m.hook, effect.Answered{Group: "example.com", Resource: "things", Kind: "Thing"})
	}
	time.Sleep(time.Duration(m.random.IntN(80)) * time.Second)
	synctest.Wait()
}

func (m *optionalModel) serve(state string) {
	if m.state != "missing" && time.Since(m.since) > 2*installed.Doubtful { // otherwise no read may have seen the state before
		m.missing = time.Now()
	}
	if slices.Contains([]string{"installed", "scope", "plural"}, m.state) {
		m.listed = m.state == "installed" && time.Since(m.since) > time.Minute
	}
	m.state, m.since = state, time.Now()
	m.server.set(state)
	m.tell(state)
}

func (m *optionalModel) halt() {
	m.end()
	synctest.Wait() // Enable has returned
	m.mu.Lock()
	m.version++
	m.synchronizes, m.paused = false, true
	m.mu.Unlock()
	m.pause()
}

func (m *optionalModel) tell(text string) {
	m.story = append(m.story, fmt.Sprintf("%s %s", time.Now().Format("04:05"), text))
}

// check fails if an object that exists has left the snapshot although its kind was neither gone nor replaced.
func (m *optionalModel) check() {
	has, took := m.Has(m.hook, 0, "n", "first"), time.Since(m.since)
	mayGo := took < 90*time.Second
	switch m.state {
	case "missing":
		mayGo = m.server.crd.Load() != "forbidden" || time.Since(m.missing) >= time.Minute
	case "unlisted":
		mayGo = !m.listed
	case "failing", "partial", "version":
		mayGo = false
	}
	if m.had && !has && !mayGo {
		m.t.Errorf("the object is gone %s after %s", took, m.state)
	}
	m.had = has
}

// work runs the hook.
func (m *optionalModel) work(stop chan struct{}, random *rand.Rand) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		m.mu.Lock()
		version, synchronizes, queue := m.version, m.synchronizes, slices.Clone(m.queue)
		if m.heldUp || !synchronizes && len(queue) == 0 {
			m.mu.Unlock()
			continue
		}
		m.mu.Unlock()
		var objects []string
		if synchronizes {
			objects = m.objects()
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Second)
		m.mu.Lock()
		if m.version != version || m.fails && random.IntN(3) > 0 {
			m.mu.Unlock()
			continue
		}
		if synchronizes {
			m.synchronizes, m.known = false, map[string]bool{}
			for _, name := range objects {
				m.known[name] = true
			}
			m.mu.Unlock()
			m.Unlock(m.hook, 0)
			continue
		}
		for _, ev := range queue {
			if name := ev.Object.Name; m.known[name] != (ev.Watch != event.Added) {
				m.t.Errorf("the hook knows %s: %t, and gets %s", name, m.known[name], ev.Watch)
			}
			if m.known[ev.Object.Name] = true; ev.Watch == event.Deleted {
				delete(m.known, ev.Object.Name)
			}
		}
		m.queue = m.queue[len(queue):]
		m.mu.Unlock()
	}
}

// settle fails if the hook does not come to know what the cluster has.
func (m *optionalModel) settle() {
	m.mu.Lock()
	m.heldUp, m.fails = false, false
	m.mu.Unlock()
	if m.paused {
		m.start()
	}
	final := kindStates[m.random.IntN(2)]
	m.serve(final)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	want := map[string]bool{}
	if final == "installed" {
		for name := range m.server.at(len(m.server.history)) {
			want[name] = true
		}
	}
	m.mu.Lock()
	known := maps.Clone(m.known)
	m.mu.Unlock()
	if n := m.Snapshot(m.hook, 0).Len(); n != len(want) || !maps.Equal(known, want) {
		m.t.Errorf("the hook knows %v, the snapshot has %d objects, the cluster %v", known, n, want)
	}
}
