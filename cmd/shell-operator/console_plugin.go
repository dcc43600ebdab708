package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/console"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// console serves the console here, on the person's machine: one kubectl exec carries all of its requests.
func (p *plugin) console(args []string, stdin io.Reader, stdout io.Writer) error {
	f := &consoleFlags{}
	var timeout time.Duration
	c := &cobra.Command{Use: "console [PATH]", Args: upToOne("one page"), SilenceUsage: true, SilenceErrors: true}
	f.add(c)
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "time limit for the operator's answer to begin")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := untilSignal()
		defer stop()
		return f.serve(ctx, stdin, stdout, strings.Join(args, ""), console.Options{
			Connect: func(context.Context) (*console.Connection, error) {
				pod, flags, err := p.shown()
				if err != nil {
					return nil, err
				}
				tunnel := debug.NewTunnel(func(context.Context) (net.Conn, error) { return p.dial(pod) }, timeout)
				return &console.Connection{Operator: tunnel, Pod: pod, Flags: flags}, nil
			},
			Program: "kubectl shell-operator", Flags: strings.Join(p.own, " "), Timeout: timeout,
		})
	}
	c.SetArgs(args)
	c.SetOut(stdout)
	return c.Execute()
}

// shown is the Pod of the console, which may be another one after each change of the leader, and the flag that names it among the replicas:
// commands that are copied from its pages reach it.
func (p *plugin) shown() (pod, flags string, err error) {
	if p.named == "" {
		if pod, err = p.leader(); pod != "" || err != nil {
			return pod, "--pod " + pod, err
		}
	}
	pod, err = p.pod()
	return pod, "", err
}

// dial joins a connection with the debug socket in a Pod.
func (p *plugin) dial(pod string) (net.Conn, error) {
	path, err := exec.LookPath(p.kubectl)
	if err != nil {
		return nil, fmt.Errorf("cannot run kubectl: %w: set KUBECTL to its path", err)
	}
	args := append([]string{"exec", "--stdin"}, p.cluster...)
	if p.container != "" {
		args = append(args, "--container", p.container)
	}
	return newPiped(exec.Command(path, append(args, pod, "--", p.program, "raw", "--connect")...))
}

// piped is a connection over the standard streams of a process. The process ends with it, and with this one: its standard input is closed.
type piped struct {
	cmd    *exec.Cmd
	stderr lastText
	// in is what the process reads, out what it writes.
	in, out *os.File
	ended   chan struct{}
	close   sync.Once
}

func newPiped(cmd *exec.Cmd) (*piped, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	p := &piped{cmd: cmd, in: in, out: out, ended: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot run kubectl: %w", err), in.Close(), out.Close())
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // what it printed is the error
	}()
	return p, nil
}

// Read returns what the process has printed about its end as the error.
func (p *piped) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if errors.Is(err, io.EOF) {
		<-p.ended
		return n, fmt.Errorf("kubectl exec has ended: %s", cmp.Or(p.stderr.String(), "the Pod or the connection to it is gone"))
	}
	return n, err
}

func (p *piped) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the process.
func (p *piped) Close() error {
	p.close.Do(func() {
		_ = p.in.Close()
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.out.Close()
	})
	return nil
}

func (p *piped) SetDeadline(t time.Time) error {
	return errors.Join(p.out.SetReadDeadline(t), p.in.SetWriteDeadline(t))
}
func (p *piped) SetReadDeadline(t time.Time) error  { return p.out.SetReadDeadline(t) }
func (p *piped) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }
func (p *piped) LocalAddr() net.Addr                { return pipeAddress{} }
func (p *piped) RemoteAddr() net.Addr               { return pipeAddress{} }

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "kubectl exec" }

// lastText keeps the end of what is written.
type lastText struct {
	mu   sync.Mutex
	text []byte
}

// lastBytes is how much of the errors of kubectl is kept.
const lastBytes = 2 << 10

func (l *lastText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-lastBytes):]
	return len(b), nil
}

func (l *lastText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
