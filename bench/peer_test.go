package bench

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// peer is the operator of bench/peers: controller-runtime in the place of this program.
type peer struct {
	b       *bench
	cmd     *exec.Cmd
	started time.Time
	errors  bytes.Buffer
	lines   chan reconciled
}

// reconciled is one line of the peer: the object that it read from its cache, and when the line arrived.
type reconciled struct {
	name, version string
	at            time.Time
}

// startPeer starts it for the ConfigMaps of a namespace. It returns at the first reconcile: the initial list is in the cache.
func (b *bench) startPeer(namespace string) (*peer, reconciled) {
	b.Helper()
	cmd := exec.Command(filepath.Join(test.Root(), "bin", "peers"), namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.cluster.Kubeconfig)
	p := &peer{b: b, cmd: cmd, lines: make(chan reconciled, 1<<20)} // the peer is never blocked by its reader
	cmd.Stderr = &p.errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatalf("%v: run make bench, which builds bin/peers", err)
	}
	b.Cleanup(p.stop)
	go func() {
		defer close(p.lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			name, version, _ := strings.Cut(text.Text(), " ")
			p.lines <- reconciled{name, version, time.Now()}
		}
	}()
	return p, p.next()
}

func (p *peer) next() reconciled {
	p.b.Helper()
	line, running := <-p.lines
	if !running {
		_ = p.cmd.Wait()
		p.b.Fatalf("the operator of bench/peers has ended\n%s", p.errors.String())
	}
	return line
}

// until returns the reconcile of an object, of any version if it is empty.
func (p *peer) until(name, version string) reconciled {
	p.b.Helper()
	for {
		if line := p.next(); line.name == name && (version == "" || line.version == version) {
			return line
		}
	}
}

func (p *peer) memory(key string) float64 { return p.b.memory(p.cmd.Process.Pid, key) }

func (p *peer) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
