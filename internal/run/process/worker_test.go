package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestServedInWords(t *testing.T) {
	for want, s := range map[string]Served{
		"run 512 of worker 3":                      {Worker: 3, Run: 512},
		"run 1 of worker 1, after a start of 20ms": {Worker: 1, Run: 1, Started: 20 * time.Millisecond},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// The protocol in whatever pieces it comes.
func TestTalk(t *testing.T) {
	var c talk
	step := func(received string, want word, status int) {
		t.Helper()
		if got, n, wrong := c.next([]byte(received)); got != want || n != status {
			t.Fatalf("%q: %d %d %q, want %d %d", received, got, n, wrong, want, status)
		}
	}
	step("rea", silence, 0)
	step("dy\n", ready, 0)
	c.send("17-2")
	step("17-", silence, 0)
	step("2 7", silence, 0)
	step("\n", answer, 7)
	step("", silence, 0)
	c.send("17-3")
	step("17-3 0\nmore", answer, 0)
	step("", breach, 0)
}

// A run that comes while the operator is killed goes to another worker.
func TestRunAtTheKill(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hook.sh")
	if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\necho ready >&3\nread -r <&3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	kill, killAll := context.WithCancel(t.Context())
	e := New(Options{TermDelay: time.Hour, Kill: kill})
	ready, discard := make(chan struct{}), func([]byte) {}
	in := Invocation{Hook: "hook.sh", Path: path, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: discard, Stderr: discard}
	w, err := e.StartResident(ResidentOptions{Invocation: in, ReadyTimeout: time.Hour, Ready: func() { close(ready) }, Ended: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(w.Run)
	<-ready
	in.Worker = &Worker{Run: "1", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err")}
	w.wanted.Store(true) // the run has come when the worker notices the end
	killAll()
	running.Wait()
	if _, err := w.Serve(t.Context(), in); !errors.Is(err, ErrWorkerGone) {
		t.Error(err)
	}
}
