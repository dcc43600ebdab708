package http

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// oneConnection is a listener to which one client comes.
type oneConnection struct {
	connections chan net.Conn
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if c, ok := <-l.connections; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *oneConnection) Close() error   { return nil }
func (l *oneConnection) Addr() net.Addr { return &net.TCPAddr{} }

// A server's limit for reading a request is none for answering it, and what limited one answer does not limit the next one
// on the same connection.
func TestLongRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _ := newHandler(t, Options{
			Runner: runnerFunc(func(ctx context.Context, _ *hook.Hook, _ int, r *event.Request) (effect.HTTPAnswer, error) {
				select {
				case <-time.After(10 * time.Minute):
					return effect.HTTPAnswer{Status: 200, Body: r.Body}, nil
				case <-ctx.Done():
					return effect.HTTPAnswer{}, errors.New("ended early")
				}
			})}, "a.sh POST /a")
		handler.routes[0].timeout = time.Hour
		client, other := net.Pipe()
		listener := &oneConnection{make(chan net.Conn, 1)}
		listener.connections <- other
		server := &http.Server{Handler: handler, ReadTimeout: 30 * time.Second, IdleTimeout: time.Hour}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		answers := bufio.NewReader(client)
		for range 2 {
			if _, err := io.WriteString(client, "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"); err !=
				nil {
				t.Fatal(err)
			}
			if line, err := answers.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q %v", line, err)
			}
			_, _ = answers.ReadString('\n')
			if _, err := io.WriteString(client, "hi"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != 200 || string(body) != "hi" || err != nil {
				t.Errorf("got %d %s %v", answer.StatusCode, body, err)
			}
			time.Sleep(10 * time.Minute)
		}
		close(listener.connections)
		client.Close()
		<-served
		_ = server.Close()
		synctest.Wait()
	})
}
