package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// socket is where a running supervisor takes requests. It is relative to the folder, because the path of a socket
// may have only about a hundred bytes.
const socket = "control.socket"

// run serves requests and notes deaths until ctx ends.
func (s *supervisor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.ended:
			if err := s.bury(p); err != nil {
				fmt.Fprintf(s.stderr, "testcluster: %v; 'testcluster restart' starts it again\n", err)
			}
		case request := <-s.restarts:
			request.done <- s.restart(ctx, request.name)
		}
	}
}

// bury notes that a process has ended. It returns nil for one that was stopped on purpose.
func (s *supervisor) bury(p *process) error {
	for _, c := range s.components {
		if c.process == p {
			c.buried(s.folder)
			return fmt.Errorf("%s ended: %v", c.name, p.err)
		}
	}
	return nil
}

// restart stops a component, if it lives, and returns when a new process is healthy.
func (s *supervisor) restart(ctx context.Context, name string) error {
	i := slices.IndexFunc(s.components, func(c *component) bool { return c.name == name })
	if i < 0 {
		return usageError(fmt.Sprintf("unknown component %q", name))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("gave up after %v", startPatience))
	defer cancel()
	c := s.components[i]
	c.stop(s.folder)
	return s.startComponent(ctx, c)
}

// stop ends all components, the last one first.
func (s *supervisor) stop() {
	// Each process reports its end once; the reports are no longer needed.
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-s.ended:
			case <-over:
				return
			}
		}
	}()
	for _, c := range slices.Backward(s.components) {
		c.stop(s.folder)
	}
}

// listen takes requests from `testcluster restart`, one line each. The returned function ends that.
func (s *supervisor) listen() (func(), error) {
	if err := os.Chdir(string(s.folder)); err != nil {
		return nil, err
	}
	_ = os.Remove(socket) // left by a supervisor that was killed, as the lock proves
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("cannot listen in %s: %w", s.folder, err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.answer(conn)
		}
	}()
	return func() { listener.Close() }, nil
}

func (s *supervisor) answer(conn net.Conn) {
	defer conn.Close()
	name, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	request := restartRequest{name: strings.TrimSpace(name), done: make(chan error, 1)}
	s.restarts <- request
	if err := <-request.done; err != nil {
		fmt.Fprintln(conn, err)
		return
	}
	fmt.Fprintln(conn, "ok")
}

// restart asks the supervisor of a folder to restart one component.
func restart(args []string) error {
	dir, rest, err := parseDir(args)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usageError("name one component: etcd, kube-apiserver or kube-controller-manager")
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("no cluster runs in %s: start it with 'testcluster start --dir %s' (%w)", dir, dir, err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, rest[0])
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the cluster in %s stopped before it answered: %w", dir, err)
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return errors.New(answer)
	}
	return nil
}
