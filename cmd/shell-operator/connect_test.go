package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	// macOS cannot make sockets that no other process inherits in one call.
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
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
	streams := make([]io.ReadCloser, 10)
	for i := range streams {
		streams[i] = answered(t, c, "/tail.json")
		if text, err := io.ReadAll(answered(t, c, "/run/list.json")); err != nil || string(text) != "[]" {
			t.Errorf("the list is %s %v", text, err)
		}
	}
	runs.Begin(history.Run{Task: "17", Hook: "pods.sh", Attempt: 1}).End(history.Outcome{Status: history.Succeeded})
	for _, stream := range streams {
		lines := json.NewDecoder(stream)
		for _, want := range []history.Kind{history.Began, history.Ended} {
			if e := (history.Entry{}); lines.Decode(&e) != nil || e.Kind != want {
				t.Errorf("a stream has %v, not %s", e, want)
			}
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d times kubectl exec", n)
	}
}

// answered is the body of an answer.
func answered(t *testing.T, c *debug.Client, path string) io.ReadCloser {
	t.Helper()
	body, err := c.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { body.Close() })
	return body
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
