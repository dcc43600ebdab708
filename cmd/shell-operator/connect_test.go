package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// served is the debug API of an operator that has runs only, at a socket.
func served(t *testing.T) (socket string, runs *history.History) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, runs = filepath.Join(dir, "debug.socket"), history.New()
	log := slog.New(slog.DiscardHandler)
	api := debug.New(debug.Options{Hooks: &debug.Hooks{Active: func() []*hook.Hook { return []*hook.Hook{} }}, Log: log})
	api.Show([]debug.Topic{debug.RunsTopic(nil, runs, nil)})
	server, err := debug.Listen(debug.ServerOptions{API: api, Place: debug.Place{Socket: socket, Chosen: true}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { server.Run(ctx) })
	t.Cleanup(func() { cancel(); serving.Wait() })
	return socket, runs
}

// ownProgram is this one, as users call it.
func ownProgram(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shell-operator")
	if err := os.Symlink(own, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// execed starts a stand-in for kubectl exec in front of a Pod with the operator, and returns its standard streams.
func execed(t *testing.T, socket string) (net.Conn, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	defer here.Close()
	defer there.Close()
	cmd := exec.Command(ownProgram(t), "raw", "--connect", "--debug-unix-socket", socket)
	cmd.Stdin, cmd.Stdout = there, there
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("raw --connect: %v", err)
		}
	})
	return net.FileConn(here)
}

// Ten streams and requests at one time share one kubectl exec.
func TestConnect(t *testing.T) {
	socket, runs := served(t)
	var dialed atomic.Int32
	c := debug.NewTunnel(func(context.Context) (net.Conn, error) { dialed.Add(1); return execed(t, socket) }, time.Minute)
	defer c.Close()
	var began, all sync.WaitGroup
	for range 10 {
		began.Add(1)
		all.Go(func() {
			body, err := c.Get(t.Context(), "/tail.json")
			began.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer body.Close()
			lines := bufio.NewScanner(body)
			for _, want := range []string{"began", "ended"} {
				if !lines.Scan() || !strings.Contains(lines.Text(), `"kind":"`+want+`"`) {
					t.Errorf("a stream has %q, not %s", lines.Text(), want)
				}
			}
		})
		all.Go(func() {
			body, err := c.Get(t.Context(), "/run/list.json")
			if err != nil {
				t.Error(err)
				return
			}
			defer body.Close()
			if text, err := io.ReadAll(body); err != nil || !strings.HasPrefix(string(text), "[") {
				t.Errorf("the list is %s %v", text, err)
			}
		})
	}
	began.Wait()
	runs.Begin(history.Run{Task: "17", Hook: "pods.sh", Attempt: 1}).End(history.Outcome{Status: history.Succeeded})
	all.Wait()
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d times kubectl exec", n)
	}
}

// The tunnel in the Pod ends when the process is killed that holds its standard input.
func TestConnectEndsWithItsClient(t *testing.T) {
	socket, _ := served(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	client := exec.Command("sleep", "1000")
	client.Stdout = w
	connect := exec.Command(ownProgram(t), "raw", "--connect", "--debug-unix-socket", socket)
	connect.Stdin = r
	if err := errors.Join(client.Start(), connect.Start(), r.Close(), w.Close(), client.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = client.Wait() // it was killed
	if err := connect.Wait(); err != nil {
		t.Errorf("raw --connect: %v", err)
	}
}
