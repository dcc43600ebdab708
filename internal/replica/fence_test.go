package replica

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

// clocks are two that a test sets.
type clocks struct {
	mu  sync.Mutex
	now moment
}

func (c *clocks) read() moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clocks) pass(steady, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = moment{Steady: c.now.Steady.Add(steady), Wall: c.now.Wall.Add(wall)}
}

// newFence returns a fence of a Lease that has just been renewed and counts for ten seconds.
func newFence() (*fence, *clocks) {
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	c := &clocks{now: moment{Steady: start, Wall: start}}
	f := &fence{limit: 10 * time.Second, now: c.read}
	f.hold(ownership.At(start))
	return f, c
}

func TestFence(t *testing.T) {
	for _, test := range []struct {
		name         string
		steady, wall time.Duration
		says         string
	}{
		{"just renewed", 0, 0, ""},
		{"in time", 9999 * time.Millisecond, 9999 * time.Millisecond, ""},
		{"at the deadline", 10 * time.Second, 10 * time.Second, "renewed 10s ago and counts for 10s"},
		{"a stopped process", 42 * time.Second, 42 * time.Second, "renewed 42s ago"},
		{"a paused machine, of which the steady clock stood still", time.Second, time.Minute, "renewed 1m0s ago"},
		{"a clock that was set back", 11 * time.Second, -time.Hour, "renewed 11s ago"},
		{"a clock that was set back, in time", 9 * time.Second, -time.Hour, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := newFence()
			c.pass(test.steady, test.wall)
			err := f.check()
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			f.lose()
			if err := f.check(); err == nil || !strings.Contains(err.Error(), "does not lead any more") {
				t.Errorf("after it was lost: %v", err)
			}
		})
	}
}

// apiServer counts requests.
type apiServer struct {
	*httptest.Server
	asked atomic.Int64
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// send sends a request and returns the answer, or the error's text.
func send(t *testing.T, through http.RoundTripper, ctx context.Context, method, url string) (answer, problem string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := through.RoundTrip(req)
	if err != nil {
		return "", err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), ""
}

// Requests that write are not sent past the deadline; reads are, and so are requests without the context of a leader.
func TestFencedTransport(t *testing.T) {
	server := newAPIServer(t)
	f, c := newFence()
	through := FencedTransport(server.Client().Transport)
	leader := context.WithValue(t.Context(), fenceKey{}, f)
	changing := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for _, method := range changing {
		if got, problem := send(t, through, leader, method, server.URL); got != "text" {
			t.Errorf("%s in time: %q %s", method, got, problem)
		}
	}
	c.pass(time.Minute, time.Minute)
	before := server.asked.Load()
	for _, method := range changing {
		if _, problem := send(t, through, leader, method, server.URL); !strings.Contains(problem, "another replica may lead by now") {
			t.Errorf("%s too late: %q", method, problem)
		}
	}
	if n := server.asked.Load() - before; n > 0 {
		t.Errorf("%d requests were sent too late", n)
	}
	if got, problem := send(t, through, leader, http.MethodGet, server.URL); got != "text" {
		t.Errorf("reading: %s", problem)
	}
	if got, problem := send(t, through, t.Context(), http.MethodPatch, server.URL); got != "text" {
		t.Errorf("an answer to the API server: %s", problem)
	}
	f.hold(ownership.At(c.read().Steady))
	if got, problem := send(t, through, leader, http.MethodPatch, server.URL); got != "text" {
		t.Errorf("renewed again: %s", problem)
	}
}

// The process is stopped while a connection is being made: the request, which was in time, is not any more.
func TestFencedTransportAfterDialing(t *testing.T) {
	server := newAPIServer(t)
	f, c := newFence()
	leader := context.WithValue(t.Context(), fenceKey{}, f)
	leader = httptrace.WithClientTrace(leader, &httptrace.ClientTrace{GetConn: func(string) { c.pass(time.Minute, time.Minute) }})
	_, problem := send(t, FencedTransport(server.Client().Transport), leader, http.MethodPatch, server.URL)
	if !strings.Contains(problem, "another replica may lead by now") || server.asked.Load() > 0 {
		t.Errorf("asked %d times, %q", server.asked.Load(), problem)
	}
}

// A leader's fence is open as long as it renews its Lease, and closed when its context ends.
func TestFenceOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		a := e.start("a", "", 0, nil)
		ctx := a.Fence(t.Context())
		if Check(ctx) == nil {
			t.Error("a standby may do what a leader may")
		}
		for range 10 {
			e.leads(11*time.Second, "a")
			if err := Check(ctx); err != nil {
				t.Fatal(err)
			}
		}
		close(a.line.broken)
		if err := <-a.result; err == nil || Check(ctx) == nil {
			t.Errorf("it ended with %v and may go on", err)
		}
		b := e.start("b", "", 0, nil)
		ctx = b.Fence(t.Context())
		e.leads(16*time.Second, "b")
		if err := Check(ctx); err != nil {
			t.Error(err)
		}
		e.stop(b)
		if Check(ctx) == nil {
			t.Error("it has given the Lease back and may go on")
		}
		if err := Check(t.Context()); err != nil {
			t.Errorf("without election: %v", err)
		}
	})
}
