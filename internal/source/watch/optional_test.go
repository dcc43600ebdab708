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

// An optional binding is enabled without its kind only when it is missing in two reads, follows when it comes, and loses its objects only when
// the kind is gone beyond doubt.
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
