package watch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
)

// A muted binding sends no events, whatever it has held back, and its snapshot stays current. Enabled again it is as new, and its snapshot
// has never been empty.
func TestMute(t *testing.T) {
	s := newServer(1)
	follow(t, s, func(w *Watcher, seen *witness) {
		muted, other := seen.enter(w, "muted", 0), seen.enter(w, "other", 0)
		holds := bindings("holds", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")})
		if err := w.Enable(seen.t.Context(), holds, func(int, error) {}); err != nil {
			seen.t.Fatal(err)
		}
		write := func(name string) {
			s.write(name, false)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		write("a")
		w.Mute(muted)
		w.Mute(holds)
		w.Unlock(holds, 0)
		write("b")
		if n := w.Snapshot(muted, 0).Len(); n != 3 {
			t.Errorf("the snapshot has %d objects", n)
		}
		enabled := make(chan struct{})
		go func() {
			defer close(enabled)
			seen.enable(w, muted)
		}()
		for again := true; again; {
			select {
			case <-enabled:
				again = false
			case <-time.After(time.Millisecond):
			}
			if n := w.Snapshot(muted, 0).Len(); n != 3 {
				t.Errorf("%d objects", n)
			}
		}
		write("c")
		for h, want := range map[*hook.Hook]string{muted: "[Added a Added c]", other: "[Added a Added b Added c]", holds: "[]"} {
			if got := fmt.Sprint(seen.events[h]); got != want {
				t.Errorf("hook %s received %s, want %s", h.Name, got, want)
			}
		}
	})
}

// Mute does not wait for a disk on which an event is being stored. Neither that event nor one behind it is delivered.
func TestMuteDuringDelivery(t *testing.T) {
	entered, gate := make(chan struct{}, 10), make(chan struct{})
	sink := &gated{events: make(chan event.Event, 10), keep: func() { entered <- struct{}{}; <-gate }}
	f, all := share(t, []string{""}, []*gated{sink})
	add(t, f, 0)
	test.Receive(t, entered, "call of Keep")
	muted := make(chan struct{})
	go func() {
		all[0].mute()
		close(muted)
	}()
	test.Receive(t, muted, "return of mute")
	add(t, f, 1)
	close(gate)
	f.Wait()
	if len(sink.events) > 0 || len(entered) > 0 {
		t.Errorf("%d events, %d of them stored after mute", len(sink.events), len(entered))
	}
	if n := all[0].snapshot().Len(); n != 2 {
		t.Errorf("%d objects", n)
	}
}

// A disabled binding has no effects, and its streams end when no other binding uses them.
func TestDisable(t *testing.T) {
	s := newServer(1)
	follow(t, s, func(w *Watcher, seen *witness) {
		watched := hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n", "other")}
		gone := seen.enable(w, bindings("gone", watched, watched))
		for i, index := range []int{0, 0, 1} {
			if n := w.Streams(); n != 2 {
				t.Errorf("step %d: %d streams while a binding needs them", i, n)
			}
			w.Disable(gone, index)
		}
		if n := w.Streams(); n != 0 {
			t.Errorf("%d unused streams", n)
		}
		if a, b := w.Snapshot(gone, 0).Len(), w.Snapshot(gone, 1).Len(); a+b > 0 {
			t.Errorf("%d and %d objects", a, b)
		}
		// The same again, by others, is as new.
		left := seen.enter(w, "left", 0)
		s.write("first", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(seen.events[left], seen.events[gone]); got != "[Modified first] []" || w.Snapshot(left, 0).Len() != 1 {
			t.Errorf("received %s", got)
		}
	})
}

// Each namespace that matches has streams, which end when it matches no longer, also if that happened during an outage.
func TestStreamsOfFollowedNamespaces(t *testing.T) {
	s := newServer(1) // has the same objects as ConfigMaps and as namespaces
	follow(t, s, func(w *Watcher, seen *witness) {
		h := bindings("follow", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: hook.Namespaces{ByLabels: true, Labels: "a"},
			Names: []string{"x", "y"}})
		h.Kubernetes[0].Added, h.Kubernetes[0].Modified, h.Kubernetes[0].Deleted = false, false, false
		seen.enable(w, h)
		for i, step := range []struct {
			change  func()
			streams int
		}{
			{func() {}, 1 + 2},
			{func() { s.write("second", false) }, 1 + 4},
			{func() { s.write("first", true) }, 1 + 2},
			{func() { s.write("third", false); s.write("second", true); s.write("fourth", false); s.compact() }, 1 + 4},
			{func() { s.write("fourth", true); s.compact() }, 1 + 2},
		} {
			step.change()
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := w.Streams(); n != step.streams {
				t.Errorf("step %d: %d streams, want %d", i, n, step.streams)
			}
		}
		if want := "/api/v1/namespaces/third/configmaps "; !slices.Contains(s.requests, want+"1") && !slices.Contains(s.requests, want+"true") {
			t.Errorf("no request for %s: %q", want, s.requests)
		}
	})
}

// unreachable is the way to no API server.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, errUnreachable }

// Enable of an impossible binding reports why, and ends with the operator.
func TestEnableEnds(t *testing.T) {
	forbidding := newServer(1)
	forbidding.refuse = func(path string) *http.Response {
		if strings.HasSuffix(path, "/configmaps") {
			return respond(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		}
		return nil
	}
	for _, test := range []struct {
		server http.RoundTripper
		kind   string
		want   string
	}{
		{newServer(1), "nosuch", "knows no kind"},
		{forbidding, "ConfigMap", "no permission to list configmaps (v1) in namespace n"},
		{unreachable{}, "ConfigMap", "cannot resolve kind"},
	} {
		followThrough(t, newServer(1), test.server, func(w *Watcher, seen *witness) {
			ctx, stop := context.WithCancel(seen.t.Context())
			stuck, ended := make(chan string, 100), make(chan error, 1)
			go func() {
				ended <- w.Enable(ctx, bindings("h", hook.Kubernetes{APIVersion: "v1", Kind: test.kind, Namespaces: inNamespaces("n")}),
					func(_ int, err error) {
						if err != nil {
							stuck <- err.Error()
						}
					})
			}()
			if got := <-stuck; !strings.Contains(got, test.want) {
				t.Errorf("stuck is %q, want %q", got, test.want)
			}
			stop()
			if <-ended == nil {
				t.Errorf("%s: Enable succeeded", test.want)
			}
		})
	}
}
