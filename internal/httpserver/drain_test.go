package httpserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// No request is lost when a server of reviews ends and new connections lead to another one, although clients keep connections that are
// idle most of the time, and never repeat a request.
func TestNoRequestIsLostAtTheEnd(t *testing.T) {
	var to atomic.Pointer[Server]
	begin := func() (end func()) {
		s, err := New(Options{
			Address: "127.0.0.1:0", Component: "admission-server", Log: slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "answered") }),
		})
		if err != nil {
			t.Fatal(err)
		}
		to.Store(s)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		return func() {
			stop()
			if err := test.Receive(t, ended, "end of a server"); err != nil {
				t.Error(err)
			}
		}
	}
	end := begin()
	transport := &http.Transport{MaxIdleConnsPerHost: 32, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, to.Load().Address())
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	loaded, stop := context.WithCancel(t.Context())
	answered := make(chan struct{})
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for loaded.Err() == nil {
				response, err := client.Post("http://replica/", "application/json", io.NopCloser(strings.NewReader("{}")))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				select {
				case answered <- struct{}{}:
				case <-loaded.Done():
				}
			}
		})
	}
	defer clients.Wait()
	defer stop()
	receive := func(n int) {
		for range n {
			test.Receive(t, answered, "answer")
		}
	}
	for range 2 {
		receive(200)
		last := end
		end = begin()
		leaving := make(chan struct{})
		go func() {
			defer close(leaving)
			last()
		}()
		for left := false; !left; {
			select {
			case <-leaving:
				left = true
			case <-answered:
			}
		}
	}
	receive(200)
	stop()
	clients.Wait()
	end()
}
