package testenv

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Balancer sends new connections to one of several replicas in turn, as a Service does; open ones stay where they are.
type Balancer struct {
	listener net.Listener
	to       atomic.Pointer[[]string] // addresses
	sent     atomic.Int64
	open     sync.Map // connections
}

// NewBalancer returns a Balancer that leads nowhere.
func NewBalancer(t testing.TB) *Balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Balancer{listener: listener}
	b.Cut()
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer client.Close()
				b.open.Store(client, nil)
				defer b.open.Delete(client)
				to := *b.to.Load()
				server, err := net.Dial("tcp", to[b.sent.Add(1)%int64(len(to))])
				if err != nil {
					return
				}
				defer server.Close()
				connections.Go(func() {
					_, _ = io.Copy(server, client)
					_ = server.(*net.TCPConn).CloseWrite()
				})
				_, _ = io.Copy(client, server)
			})
		}
	})
	t.Cleanup(func() { listener.Close() })
	return b
}

// Lead sends new connections to these addresses.
func (b *Balancer) Lead(to ...string) { b.to.Store(&to) }

// Cut ends all connections, as when their replica is killed, and leads nowhere.
func (b *Balancer) Cut() {
	b.Lead("127.0.0.1:1")
	b.open.Range(func(conn, _ any) bool {
		_ = conn.(net.Conn).Close()
		return true
	})
}

// URL is the address for clients.
func (b *Balancer) URL() string { return "https://" + b.listener.Addr().String() }
