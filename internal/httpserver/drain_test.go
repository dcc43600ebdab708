package httpserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// No request is lost when a server of reviews ends and new connections lead to another one, although clients keep idle connections, and
// never repeat a request: the old server answers on them during its drain, and each client leaves with its first answer.
func TestNoRequestIsLostAtTheEnd(t *testing.T) {
	var to atomic.Pointer[Server]
	begin := func(name string) (end func() (drained func())) {
		s, err := New(Options{
			Address: "127.0.0.1:0", Component: "admission-server", Log: slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }),
		})
		if err != nil {
			t.Fatal(err)
		}
		draining, drain, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		s.drain = func(context.Context) {
			close(draining)
			<-drain
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- s.Run(ctx) }()
		to.Store(s)
		return func() func() {
			cancel()
			test.Receive(t, draining, "beginning of the drain")
			return func() {
				close(drain)
				if err := test.Receive(t, ended, "end of a server"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	var clients [16]http.Client
	for i := range clients {
		transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, to.Load().Address())
		}}
		t.Cleanup(transport.CloseIdleConnections)
		clients[i].Transport = transport
	}
	answered := func(by string) {
		t.Helper()
		for i := range clients {
			request := httptest.NewRequestWithContext(t.Context(), "POST", "http://replica/", strings.NewReader("{}"))
			request.RequestURI = ""
			request.Header.Set("Content-Type", "application/json")
			request.GetBody = nil // or the client repeats it
			response, err := clients[i].Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || string(answer) != by {
				t.Fatalf("client %d has the answer %q of server %s, error %v", i, answer, by, err)
			}
		}
	}
	old := begin("0")
	answered("0")
	for _, name := range []string{"1", "2"} {
		next := begin(name)
		drained := old()
		answered(fmt.Sprint(name[0] - '1')) // on the connections that clients keep
		answered(name)
		drained()
		answered(name)
		old = next
	}
	old()()
}

// The drain goes on while clients send requests, for 5 s.
func TestUntilQuiet(t *testing.T) {
	for name, test := range map[string]struct{ every, until, want time.Duration }{
		"nothing comes":      {time.Hour, 0, time.Second},
		"requests for 3.2 s": {800 * time.Millisecond, 3200 * time.Millisecond, 4200 * time.Millisecond},
		"they do not end":    {500 * time.Millisecond, 6 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, begun := &Server{open: NewConnections(1, slog.New(slog.DiscardHandler))}, time.Now()
				s.open.all = []*connection{{}}
				var clients sync.WaitGroup
				clients.Go(func() {
					for range test.until / test.every {
						time.Sleep(test.every)
						now := time.Now()
						s.used.Store(&now)
					}
				})
				s.untilQuiet(t.Context())
				if took := time.Since(begun); took != test.want {
					t.Errorf("it ends after %v, not %v", took, test.want)
				}
				clients.Wait()
			})
		})
	}
}

// A stranger does not delay the end of a server of reviews.
func TestStrangersDelayNoEnd(t *testing.T) {
	for token, delays := range map[string]bool{"": false, "/" + strings.Repeat("a", 64): true} {
		s, err := New(Options{
			Address: "127.0.0.1:0", Component: "admission-server", Log: slog.New(slog.DiscardHandler),
			Knows:   func(_, token string) bool { return token != "" },
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.ending.Store(true)
		request := httptest.NewRequestWithContext(t.Context(), "POST", "http://replica/path"+token, strings.NewReader("{}"))
		request.Header.Set("Content-Type", "application/json")
		s.server.Handler.ServeHTTP(httptest.NewRecorder(), request)
		if delays != (s.used.Load() != nil) {
			t.Errorf("with the token %q: delayed %t", token, !delays)
		}
	}
}
