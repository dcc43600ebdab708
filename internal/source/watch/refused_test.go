package watch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// holding is an API server that replaces what serves a kind: it holds the first watches for a second, and then sends an error.
type holding struct {
	*server
	holds int // guarded by the server's mu
	// hangs: further watches are not answered. forbids: all are forbidden.
	hangs, forbids bool
	lists          []time.Time
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "configmaps") {
		return h.server.RoundTrip(r)
	}
	h.mu.Lock()
	isWatch, held := r.URL.Query().Get("watch") != "", h.holds > 0
	switch {
	case !isWatch:
		h.lists = append(h.lists, time.Now())
	case held:
		h.holds--
	}
	h.mu.Unlock()
	switch {
	case isWatch && h.forbids:
		return respond(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`), nil
	case isWatch && h.hangs:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case isWatch && held:
		time.Sleep(time.Second)
		h.write("while it was held", false)
		return respond(200, `{"type":"ERROR","object":`+gone+`}`), nil
	}
	return h.server.RoundTrip(r)
}

// A binding that requests include is reported when its watch has been answered, not when its list has: what changes while the API server
// holds the watch is not seen. A list follows immediately if the answer is an error; more of them have the back-off.
func TestRequestsWaitForTheWatch(t *testing.T) {
	for _, test := range []struct {
		name     string
		server   holding
		from, to time.Duration // when the binding is reported
	}{
		{name: "answered immediately", to: 100 * time.Millisecond},
		{name: "held once", server: holding{holds: 1}, from: time.Second, to: 1100 * time.Millisecond},
		{name: "held repeatedly", server: holding{holds: 3}, from: time.Second, to: 1100 * time.Millisecond},
		{name: "forbidden", server: holding{forbids: true}, to: 100 * time.Millisecond},
		{name: "never answered", server: holding{hangs: true}, from: longestWatch, to: longestWatch + 100*time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.server
			s.server = newServer(1)
			held := s.holds
			followThrough(t, s.server, &s, func(w *Watcher, seen *witness) {
				h := bindings("reviews", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")})
				h.Validating = []hook.Admission{{Binding: hook.Binding{Includes: []int{0}}}}
				began := time.Now()
				var reported []time.Duration
				if err := w.Enable(seen.t.Context(), h, func(_ int, err error) {
					if err == nil {
						reported = append(reported, time.Since(began))
					}
				}); err != nil {
					t.Fatal(err)
				}
				if len(reported) != 1 || reported[0] < test.from || reported[0] > test.to {
					t.Errorf("the binding is reported after %s", fmt.Sprint(reported))
				}
				time.Sleep(10 * time.Second)
				if held == 0 {
					return
				}
				s.mu.Lock()
				lists := s.lists
				s.mu.Unlock()
				if n := w.Snapshot(h, 0).Len(); n != 2 {
					t.Errorf("the snapshot has %d objects", n)
				}
				for i := 1; i < len(lists); i++ {
					if gap := lists[i].Sub(lists[i-1]) - time.Second; gap > 200*time.Millisecond {
						t.Errorf("list %d follows %s after the error", i+1, gap)
					}
				}
				if len(lists) != held+1 {
					t.Errorf("%d lists", len(lists))
				}
			})
		})
	}
}
