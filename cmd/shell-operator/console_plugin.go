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
	"syscall"
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
		tunnel := debug.NewTunnel(p.dial, timeout)
		defer tunnel.Close()
		return f.serve(ctx, stdin, stdout, strings.Join(args, ""), console.Options{
			Operator: tunnel, Replica: p.replica, Program: "kubectl shell-operator", Flags: strings.Join(p.own, " "), Timeout: timeout,
		})
	}
	c.SetArgs(args)
	c.SetOut(stdout)
	return c.Execute()
}

// replica is the Pod that the console shows, and the flag that names it among several: commands that are copied from its pages reach it.
func (p *plugin) replica() (pod, flags string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown, p.shownFlags
}

// dial joins a connection with the debug socket in a Pod, which may be another one after each change of the leader.
func (p *plugin) dial(context.Context) (net.Conn, error) {
	pod, leads, err := p.pod()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.shown, p.shownFlags = pod, ""
	if leads {
		p.shownFlags = "--pod " + pod
	}
	p.mu.Unlock()
	return newPiped(exec.Command(p.kubectl, p.call(pod, []string{"raw", "--connect"}, "--stdin")...))
}

// piped is a connection over the standard streams of a process, which ends with it.
type piped struct {
	net.Conn
	cmd    *exec.Cmd
	stderr lastText
	ended  chan struct{}
}

func newPiped(cmd *exec.Cmd) (*piped, error) {
	syscall.ForkLock.RLock() // another process must not inherit them
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	here, there := os.NewFile(uintptr(ends[0]), "kubectl exec"), os.NewFile(uintptr(ends[1]), "kubectl exec")
	defer here.Close()
	defer there.Close()
	p := &piped{cmd: cmd, ended: make(chan struct{})}
	if p.Conn, err = net.FileConn(here); err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = there, there, &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot run kubectl: %w", err), p.Conn.Close())
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // what it printed is the error
	}()
	return p, nil
}

// Read returns what the process has printed about its end as the error.
func (p *piped) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		<-p.ended
		return n, fmt.Errorf("kubectl exec has ended: %s", cmp.Or(strings.TrimSpace(string(p.stderr)), "the Pod or the connection to it is gone"))
	}
	return n, err
}

// Close ends the process.
func (p *piped) Close() error {
	err := p.Conn.Close()
	_ = p.cmd.Process.Kill()
	<-p.ended
	return err
}

// lastText keeps the end of what is written.
type lastText []byte

// lastBytes is how much of the errors of kubectl is kept.
const lastBytes = 2 << 10

func (l *lastText) Write(b []byte) (int, error) {
	*l = append(*l, b...)
	*l = (*l)[max(0, len(*l)-lastBytes):]
	return len(b), nil
}
