package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
)

// served is how a model server serves the ConfigMaps.
type served int32

const (
	installed served = iota
	missing
	failing
)

// optionalKind makes ConfigMaps of a model server a kind that comes and goes. With hasCRD its CRD can be read.
func optionalKind(s *server, hasCRD bool) *atomic.Int32 {
	var is atomic.Int32
	notFound := func(cause string) *http.Response {
		return respond(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{`+cause+`}}`)
	}
	s.refuse = func(path string) *http.Response {
		now := served(is.Load())
		switch {
		case now == failing:
			return respond(503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`)
		case strings.HasPrefix(path, crds) && !hasCRD:
			return respond(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		case strings.HasPrefix(path, crds) && now == installed:
			return respond(200, `{}`)
		case strings.HasPrefix(path, crds):
			return notFound("")
		case now == missing && path == "/api/v1":
			return respond(200, `{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list","watch"]}]}`)
		case now == missing:
			return notFound(`"causes":[{"reason":"UnexpectedServerResponse"}]`)
		}
		return nil
	}
	return &is
}

// An optional binding is enabled without its kind only when it is missing in two reads, follows when it comes, and loses its objects
// only when the kind is gone beyond doubt.
func TestOptionalKind(t *testing.T) {
	for _, test := range []struct {
		name   string
		hasCRD bool
	}{{"with its CRD", true}, {"without the permission to read its CRD", false}} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(1)
			is := optionalKind(s, test.hasCRD)
			set := func(to served) {
				is.Store(int32(to))
				s.cut()
			}
			is.Store(int32(missing))
			follow(t, s, func(w *Watcher, seen *witness) {
				var came []bool
				w.opts.Installed = func(_ *hook.Hook, _ int, is bool) { came = append(came, is) }
				h := bindings("h", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"), Optional: true})
				ctx, cancel := context.WithCancel(seen.t.Context())
				seen.known[h] = map[string]bool{}
				expect := func(when string, installed bool, objects int, changes ...bool) {
					t.Helper()
					synctest.Wait()
					events := []string{"Deleted first"}[:len(changes)/2]
					if state := w.State(h, 0); state.NotInstalled == installed || state.Objects.Len() != objects || !slices.Equal(came, changes) ||
						!slices.Equal(seen.events[h], events) ||
						!installed && len(state.Troubles) > 0 {
						t.Errorf("%s: installed %t, %d objects, %v, events %q, troubles %q", when, !state.NotInstalled, state.Objects.Len(), came,
							seen.events[h], state.Troubles)
					}
				}
				began := time.Now()
				if err := w.Enable(ctx, h, func(_ int, err error) {
					if cause, ok := err.(interface{ Missing() bool }); err != nil && (!ok || !cause.Missing()) {
						t.Errorf("stuck: %v", err)
					}
				}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < doubtful || took > 2*doubtful {
					t.Errorf("enabled after %s", took)
				}
				expect("at the start", false, 0)
				set(installed)
				time.Sleep(readEvery + time.Second)
				expect("it has come", true, 1, true)
				for o := range w.Synchronize(h, 0).Each {
					seen.known[h][o.Name] = true
				}
				w.Unlock(h, 0)
				set(failing)
				time.Sleep(5 * time.Minute)
				expect("the API server fails", true, 1, true)
				set(installed)
				time.Sleep(time.Minute)
				set(missing)
				if !test.hasCRD {
					time.Sleep(goneAfter - doubtful)
					expect("it may be back", true, 1, true)
					set(installed)
					time.Sleep(time.Minute)
					expect("it was away for less than a minute", true, 1, true)
					set(missing)
				}
				time.Sleep(2 * time.Minute)
				expect("it is gone", false, 0, true, false)
				set(installed)
				time.Sleep(readEvery + time.Second)
				expect("it has come again", true, 1, true, false, true)
				cancel()
				w.Mute(h)
				w.Disable(h, 0)
				if n := w.Streams(); n > 0 {
					t.Errorf("%d streams are left", n)
				}
			})
		})
	}
}

// Whatever the API server answers, and for how long: objects of a kind that was watched leave the snapshot only after a minute in which all
// answers said that the kind is missing, and in the end the snapshot is what the cluster has.
func TestOptionalKindIsKeptInDoubt(t *testing.T) {
	seeds := uint64(20)
	if test.Long() {
		seeds = 500
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		s := newServer(seed)
		is := optionalKind(s, false)
		follow(t, s, func(w *Watcher, seen *witness) {
			h := bindings("h", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"), Optional: true})
			ctx, cancel := context.WithCancel(seen.t.Context())
			defer cancel()
			seen.known[h] = map[string]bool{}
			enabled := make(chan error, 1)
			go func() { enabled <- w.Enable(ctx, h, func(int, error) {}) }()
			had, state, since, story := false, installed, time.Now(), ""
			for range 30 {
				if next := served(random.IntN(3)); next != state {
					state, since = next, time.Now()
					is.Store(int32(state))
					s.cut()
				}
				took := time.Duration(11+random.IntN(45)) * time.Second // a read notices it
				story += fmt.Sprintf(" %d for %s,", state, took)
				time.Sleep(took)
				synctest.Wait()
				has := w.Snapshot(h, 0).Len() > 0
				if had && !has && (state != missing || time.Since(since) < goneAfter) {
					t.Fatalf("seed %d: the objects are gone %s after%s", seed, time.Since(since), story)
				}
				if has && state == missing && time.Since(since) > goneAfter+2*doubtful+time.Second {
					t.Fatalf("seed %d: objects of a missing kind after%s", seed, story)
				}
				had = has
			}
			is.Store(int32(installed))
			s.cut()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if err := <-enabled; err != nil || w.Snapshot(h, 0).Len() != 1 {
				t.Fatalf("seed %d: %v, %d objects in the end, after%s", seed, err, w.Snapshot(h, 0).Len(), story)
			}
		})
	}
}

// optionalStage is a hook with an optional binding for the ConfigMaps of a model server.
type optionalStage struct {
	*Watcher
	t    *testing.T
	s    *server
	seen *witness
	is   *atomic.Int32
	hook *hook.Hook
	end  context.CancelFunc
	// came are the reports that the kind has come or is gone.
	came []bool
}

func playOptional(t *testing.T, play func(o *optionalStage)) {
	s := newServer(1)
	o := &optionalStage{t: t, s: s, is: optionalKind(s, true)}
	follow(t, s, func(w *Watcher, seen *witness) {
		o.Watcher, o.seen = w, seen
		o.hook = bindings("h", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"), Optional: true})
		w.opts.Installed = func(_ *hook.Hook, _ int, is bool) { o.came = append(o.came, is) }
		seen.known[o.hook] = map[string]bool{}
		play(o)
	})
}

// set makes the kind come, go or fail, and waits until that is known.
func (o *optionalStage) set(to served) {
	o.is.Store(int32(to))
	o.s.cut()
	time.Sleep(time.Minute)
	synctest.Wait()
}

// enable begins what a start, or the end of a pause, begins.
func (o *optionalStage) enable() {
	var ctx context.Context
	ctx, o.end = context.WithCancel(o.seen.t.Context())
	go func() { _ = o.Enable(ctx, o.hook, func(int, error) {}) }()
	time.Sleep(2 * doubtful)
	synctest.Wait()
}

func (o *optionalStage) pause() {
	o.end()
	o.Mute(o.hook)
	synctest.Wait()
}

// synchronize delivers the initial list and unlocks the binding.
func (o *optionalStage) synchronize() {
	known := map[string]bool{}
	for object := range event.Own(o.Synchronize(o.hook, 0)).Each {
		known[object.Name] = true
	}
	o.seen.mu.Lock()
	o.seen.known[o.hook] = known
	o.seen.mu.Unlock()
	o.Unlock(o.hook, 0)
}

func (o *optionalStage) expect(when string, installed bool, objects int, came string, events ...string) {
	o.t.Helper()
	synctest.Wait()
	n := o.Snapshot(o.hook, 0).Len()
	is := o.Installed(o.hook, 0)
	if is != installed || n != objects || fmt.Sprint(o.came) != came || !slices.Equal(o.seen.events[o.hook], events) {
		o.t.Errorf("%s: installed %t, %d objects, came %v, events %q", when, is, n, o.came, o.seen.events[o.hook])
	}
}

// A hook that was paused while the kind came or went finds what there is when it is resumed. Nothing is reported for it meanwhile.
func TestOptionalKindAndPauses(t *testing.T) {
	playOptional(t, func(o *optionalStage) {
		o.is.Store(int32(missing))
		o.enable()
		o.expect("at the start", false, 0, "[]")
		o.pause()
		o.set(installed)
		o.expect("it comes in a pause", true, 0, "[]")
		o.enable()
		o.synchronize()
		o.expect("resumed", true, 1, "[]")
		o.pause()
		o.set(missing)
		o.expect("it goes in a pause", true, 1, "[]")
		o.enable()
		o.expect("resumed without it", false, 0, "[]")
		o.set(installed)
		o.expect("it comes again", true, 1, "[true]")
		o.pause()
		o.set(missing)
		o.set(installed)
		o.enable()
		o.expect("it went and came in a pause", true, 1, "[true]")
		o.end()
	})
	// It was missing before the pause and has come since. A single read without it proves nothing.
	playOptional(t, func(o *optionalStage) {
		o.is.Store(int32(missing))
		o.enable()
		o.expect("at the start", false, 0, "[]")
		o.pause()
		o.set(installed)
		o.set(missing)
		time.AfterFunc(doubtful/2, func() { o.is.Store(int32(installed)) })
		o.enable()
		o.expect("missing for a moment at the end of a pause", true, 1, "[]")
		o.end()
	})
}

// A standby follows the kind without events, and reports it like the leader; its Synchronization has the objects of the time when it leads.
func TestOptionalKindOfAStandby(t *testing.T) {
	for _, leads := range []served{installed, missing} {
		playOptional(t, func(o *optionalStage) {
			o.resting = true
			o.is.Store(int32(missing))
			o.enable()
			o.s.write("second", false)
			o.set(installed)
			o.expect("it has come", true, 2, "[true]")
			o.set(missing)
			o.expect("it is gone", false, 0, "[true false]")
			o.set(installed)
			o.expect("it has come again", true, 2, "[true false true]")
			o.set(leads)
			o.Lead()
			if leads == missing {
				o.expect("leads without it", false, 0, "[true false true false]")
				o.set(installed)
				o.synchronize()
				o.expect("it comes to a leader", true, 2, "[true false true false true]")
			} else {
				o.synchronize()
			}
			o.s.write("second", true)
			time.Sleep(time.Second)
			synctest.Wait()
			if got := o.seen.events[o.hook]; !slices.Equal(got, []string{"Deleted second"}) {
				t.Errorf("the leader has delivered %q", got)
			}
			o.end()
		})
	}
}

// A binding that is disabled in any state leaves nothing, and reports nothing afterwards.
func TestOptionalKindIsDisabled(t *testing.T) {
	for name, begin := range map[string]func(o *optionalStage){
		"in doubt at the start": func(o *optionalStage) {
			o.is.Store(int32(missing))
			ctx, end := context.WithCancel(o.seen.t.Context())
			o.end = end
			go func() { _ = o.Enable(ctx, o.hook, func(int, error) {}) }()
			time.Sleep(time.Second)
		},
		"without the kind": func(o *optionalStage) {
			o.is.Store(int32(missing))
			o.enable()
		},
		"in doubt": func(o *optionalStage) {
			o.enable()
			o.synchronize()
			o.is.Store(int32(failing))
			o.s.cut()
			time.Sleep(5 * time.Second)
		},
		"when the kind is gone": func(o *optionalStage) {
			o.enable()
			o.synchronize()
			o.set(missing)
		},
	} {
		playOptional(t, func(o *optionalStage) {
			begin(o)
			came := len(o.came)
			o.end()
			o.Mute(o.hook)
			o.Disable(o.hook, 0)
			for _, to := range []served{installed, missing, installed} {
				o.set(to)
			}
			if len(o.came) != came || o.Streams() > 0 || len(o.absent) > 0 || len(o.monitors) > 0 {
				t.Errorf("%s: reported %v, %d streams, %d absent, %d monitors are left",
					name, o.came[came:], o.Streams(), len(o.absent), len(o.monitors))
			}
		})
	}
}
