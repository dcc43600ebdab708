package worker

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// State shows each worker, and what is wrong as long as it is.
func TestState(t *testing.T) {
	b := newBench(t, strings.Replace(plain, "PREPARATION", `[[ ! -e $0.fails ]] || { echo secret >&2; exit 2; }`, 1), nil)
	if got := b.pool.State("hook.sh"); len(got.Workers)+len(got.Problems) != 0 {
		t.Error(got)
	}
	if err := syscall.Mkfifo(b.path+".gate", 0o600); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	first := b.run("echo $$")
	running.Go(func() {
		if got := b.run(`read <"$0.gate"`); got.err != nil {
			t.Error(got)
		}
	})
	b.await("a run", func() bool { all := b.pool.State("hook.sh").Workers; return len(all) == 1 && all[0].Phase == "serving" })
	if got := b.run("true"); got.err != nil {
		t.Error(got)
	}
	got := b.pool.State("hook.sh")
	if len(got.Workers) != 2 || strconv.Itoa(got.Workers[0].PID) != first.stdout[0] || got.Workers[0].Runs != 1 ||
		got.Workers[1].Number != 2 || got.Workers[1].Phase != "ready" || got.Workers[1].Runs != 1 ||
		got.Workers[1].Started.Before(got.Workers[0].Started) ||
		len(b.pool.State("other.sh").Workers) != 0 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(b.path+".gate", []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	running.Wait()

	if err := os.WriteFile(b.path+".fails", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, w := range got.Workers {
		_ = syscall.Kill(w.PID, syscall.SIGKILL)
	}
	b.await("their ends", func() bool { return len(b.pool.State("hook.sh").Workers) == 0 })
	for n := range 2 {
		if got := b.run("true"); got.err == nil {
			t.Error(got)
		}
		all := b.pool.State("hook.sh").Problems
		if len(all) != 1 || all[0].Failed != n+1 || !all[0].Retry.IsZero() || strings.Contains(all[0].Cause, "secret") ||
			!strings.HasPrefix(all[0].Cause, "its worker ended with exit status 2 before it was ready") {
			t.Errorf("%+v", all)
		}
	}
	_ = os.Remove(b.path + ".fails")
	if got := b.run("true"); got.err != nil || len(b.pool.State("hook.sh").Problems) != 0 {
		t.Error(got, b.pool.State("hook.sh").Problems)
	}
}

// A worker for clients that cannot be started backs off. A reload forgets its failures.
func TestProblemOfAWorkerForClients(t *testing.T) {
	b := newBench(t, "#!/bin/sh\nexit 3", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.pool.Run(ctx) })
	defer running.Wait()
	defer cancel()
	of := func(files int) process.Invocation {
		in := b.invocation("true")
		in.Worker.Files, in.Worker.Client = files, true
		return in
	}
	b.pool.Keep([]process.Invocation{of(1)})
	b.await("a back-off", func() bool {
		all := b.pool.State("hook.sh").Problems
		return len(all) == 1 && all[0].Client && all[0].Failed > 0 && all[0].Retry.After(time.Now())
	})
	if err := os.WriteFile(b.path, []byte(prepared("")), 0o755); err != nil {
		t.Fatal(err)
	}
	b.pool.Keep([]process.Invocation{of(2)})
	b.await("a worker", func() bool {
		got := b.pool.State("hook.sh")
		return len(got.Problems) == 0 && len(got.Workers) == 1 && got.Workers[0].Phase == "ready" && got.Workers[0].Client
	})
}
