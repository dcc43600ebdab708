package testenv

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Proxy stands between an operator and the API server, counts what the operator receives, and can cut the line.
type Proxy struct {
	listener net.Listener
	target   string

	mu sync.Mutex
	// cut refuses new connections; open are those that exist.
	cut  bool
	open map[net.Conn]bool
}

// NewProxy returns a Proxy to the API server, and a kubeconfig that leads through it.
func NewProxy(t testing.TB, c *Cluster, kubeconfig string) (*Proxy, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server := config.Clusters["testcluster"].Server
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: server[len("https://"):], open: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(&serving) })
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		serving.Wait()
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	copyKubeconfig(t, kubeconfig, path, server, "https://"+listener.Addr().String())
	return p, path
}

func (p *Proxy) serve(serving *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		serving.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		return
	}
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, client)
		delete(p.open, server)
		p.mu.Unlock()
	}()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
		server.Close()
	})
	copying.Go(func() {
		_, _ = io.Copy(server, client)
		client.Close()
		server.Close()
	})
	copying.Wait()
}

// Cut breaks all connections and refuses new ones until Restore.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.open {
		c.Close()
	}
}

// Restore lets connections through again.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}
