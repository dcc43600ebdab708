package watch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/stream"
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

// longestWatch is the wait of requests for the answer to a watch.
const longestWatch = 5 * time.Second

// A request gets the objects of a binding when its watch has been answered, not when its list has: what changes while the API server holds
// the watch is not seen. A list follows immediately if the answer is an error; more of them have the back-off. Requests wait again after a
// change of how the kind is served, but not for later lists.
func TestRequestsWaitForTheWatch(t *testing.T) {
	for _, test := range []struct {
		name     string
		server   holding
		from, to time.Duration // how long requests wait
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
				await := func(from, to time.Duration) {
					t.Helper()
					began := time.Now()
					if w.Await(seen.t.Context(), h, 0); time.Since(began) < from || time.Since(began) > to {
						t.Errorf("requests wait for %s", time.Since(began))
					}
				}
				seen.enable(w, h)
				await(test.from, test.to)
				time.Sleep(10 * time.Second)
				s.mu.Lock()
				lists := s.lists
				s.holds = held
				s.mu.Unlock()
				w.Rewatch("secrets")
				await(0, 0)
				if w.Rewatch("configmaps"); s.forbids {
					test.to = longestWatch // the back-off
				}
				await(test.from, test.to)
				s.compact()
				time.Sleep(10 * time.Second)
				await(0, 0)
				if held == 0 {
					return
				}
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

// faulty is an API server whose answers to lists, or else to discovery, change with time.
type faulty struct {
	*server
	discovery bool
	faults    []fault
	began     time.Time
}

// fault is what happens to a list until a time: it is answered with a status, it cannot be sent, or its body takes some time.
type fault struct {
	until  time.Duration
	status int
	url    bool
	body   time.Duration
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	if isList := strings.Contains(r.URL.Path, "configmaps"); isList == f.discovery || r.URL.Query().Get("watch") != "" {
		return f.server.RoundTrip(r)
	}
	for _, now := range f.faults {
		switch {
		case time.Since(f.began) >= now.until:
			continue
		case now.status != 0:
			answer := respond(now.status, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, now.status))
			if now.status == http.StatusTooManyRequests {
				answer.Header.Set("Retry-After", "1")
			}
			return answer, nil
		case now.url:
			return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("connection refused")}
		}
		answer, err := f.server.RoundTrip(r)
		answer.Body = &slow{answer.Body, now.body}
		return answer, err
	}
	return f.server.RoundTrip(r)
}

// slow is the body of a response that arrives late.
type slow struct {
	io.ReadCloser
	takes time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.takes)
	s.takes = 0
	return s.ReadCloser.Read(p)
}

// Requests do not wait for a list, or for what comes before it, that the API server answers with errors for 5 s. They wait for a list in
// progress, and for an API server that cannot be reached.
func TestRequestsDoNotWaitForErrors(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name      string
		discovery bool
		faults    []fault
		missing   time.Duration // when requests do not wait any longer, give or take a fifth; 0: they wait
		filled    time.Duration // when the list is complete, give or take the back-off
	}{
		{"no error", false, nil, 0, 0},
		{"a slow list", false, []fault{{until: second, body: 20 * second}}, 0, 20 * second},
		{"a short error", false, []fault{{until: 3 * second, status: 500}}, 0, 3 * second},
		{"an error, then a slow list", false,
			[]fault{{until: 3 * second, status: 500}, {until: 9 * second, body: 20 * second}}, 0, 23 * second},
		{"internal error", false, []fault{{until: 60 * second, status: 500}}, 5 * second, 60 * second},
		{"service unavailable", false, []fault{{until: 60 * second, status: 503}}, 5 * second, 60 * second},
		{"gateway timeout", false, []fault{{until: 60 * second, status: 504}}, 5 * second, 60 * second},
		{"unauthorized", false, []fault{{until: 60 * second, status: 401}}, 5 * second, 60 * second},
		{"another error", false, []fault{{until: 60 * second, status: 418}}, 5 * second, 60 * second},
		{"too many requests, with the retries of client-go", false, []fault{{until: 60 * second, status: 429}}, 15 * second, 60 * second},
		{"forbidden", false, []fault{{until: 60 * second, status: 403}}, time.Millisecond, 60 * second},
		{"discovery", true, []fault{{until: 60 * second, status: 503}}, 5 * second, 60 * second},
		{"unreachable", false, []fault{{until: 60 * second, url: true}}, 0, 60 * second},
		{"unreachable, then an error", false,
			[]fault{{until: 30 * second, url: true}, {until: 90 * second, status: 500}}, 40 * second, 90 * second},
		{"an error, then unreachable", false, []fault{{until: 3 * second, status: 500}, {until: 60 * second, url: true}}, 0, 60 * second},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &faulty{server: newServer(1), discovery: test.discovery, faults: test.faults}
			followThrough(t, f.server, f, func(w *Watcher, seen *witness) {
				h := bindings("reviews", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")})
				f.began = time.Now()
				var missing, filled time.Duration
				if err := w.Enable(seen.t.Context(), h, func(_ int, err error) {
					switch now := time.Since(f.began); {
					case err == nil:
						filled = now
					case missing == 0 && errors.As(err, new(*stream.MissingError)):
						missing = now + 1 // it may be immediately
						if len(w.Troubles(h, 0)) != 1 {
							t.Error("there is no trouble")
						}
					}
				}); err != nil {
					t.Fatal(err)
				}
				if missing < test.missing*8/10-time.Millisecond || missing > test.missing*12/10 {
					t.Errorf("requests do not wait after %s", missing)
				}
				if filled < test.filled || filled > test.filled+13*second {
					t.Errorf("the list is complete after %s", filled)
				}
			})
		})
	}
}
