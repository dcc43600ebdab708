package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// broken is a listener that fails when the channel is closed, after one connection.
type broken struct {
	net.Listener
	accepted bool
	fails    chan struct{}
}

func (b *broken) Accept() (net.Conn, error) {
	if b.accepted {
		<-b.fails
		return nil, errors.New("it is broken")
	}
	b.accepted = true
	return b.Listener.Accept()
}

// A request that is in flight when the listener fails is answered.
func TestBrokenListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broken{Listener: listener, fails: make(chan struct{})}
	ends := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: test.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(b.fails)
		select {
		case <-ends:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})}
	server.RegisterOnShutdown(func() { close(ends) })
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), server, b, test.Patience) }()
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); string(text) != "done" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := <-served; err == nil {
		t.Error("Serve has not failed")
	}
}
