package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// What the starts and ends of a group's workers say about the hook.
func TestProblems(t *testing.T) {
	broken := func(between bool) error {
		return fmt.Errorf("wrapped: %w",
			&process.WorkerError{Hook: "h", Problem: "it ended", Sent: "secret", Stderr: "secret", BetweenRuns: between})
	}
	start := func(o *outcomes) { o.ended(starting, 0, true, broken(true)) }
	lose := func(o *outcomes) { o.ended(idle, 1, true, broken(true)) }
	times := func(n int, f func(*outcomes)) func(*outcomes) {
		return func(o *outcomes) {
			for range n {
				f(o)
			}
		}
	}
	for name, test := range map[string]struct {
		steps []func(*outcomes)
		want  string
	}{
		"nothing":                      {nil, "0 0"},
		"two failed starts":            {[]func(*outcomes){times(2, start)}, "2 0 it ended"},
		"it is killed in a run":        {[]func(*outcomes){func(o *outcomes) { o.ended(serving, 0, false, broken(false)) }}, "0 0"},
		"a run is served otherwise":    {[]func(*outcomes){start, func(o *outcomes) { o.served(1, false) }}, "0 0 it ended"},
		"and what is always there not": {[]func(*outcomes){start, func(o *outcomes) { o.served(1, true) }}, "1 0 it ended"},
		"lost after one run each":      {[]func(*outcomes){times(3, lose)}, "0 3 it ended"},
		"lost before the answer is known": {[]func(*outcomes){times(3, func(o *outcomes) {
			o.ended(serving, 0, true, broken(true))
		})}, "0 3 it ended"},
		"lost after many runs": {[]func(*outcomes){times(2, lose), func(o *outcomes) {
			o.ended(idle, 9, true, broken(true))
		}}, "0 0 it ended"},
		"one serves a second run": {[]func(*outcomes){times(3, lose), func(o *outcomes) { o.served(2, false) }}, "0 0 it ended"},
		"one ends as it was to":   {[]func(*outcomes){times(3, lose), func(o *outcomes) { o.ended(leaving, 1, false, nil) }}, "0 0 it ended"},
		"no process can be started": {[]func(*outcomes){func(o *outcomes) {
			o.ended(starting, 0, false, errors.New("h FAILED: no pipe"))
		}}, "1 0 no pipe"},
		"an error without the prefix": {[]func(*outcomes){func(o *outcomes) {
			o.ended(starting, 0, false, errors.New("no pipe"))
		}}, "1 0 no pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcomes{}
			for _, step := range test.steps {
				step(o)
			}
			if got := strings.TrimSpace(fmt.Sprint(o.failed, " ", o.lost, " ", o.cause)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

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

// A program that serves one run and ends is a problem, because each run waits for a start.
func TestWorkersThatServeOnce(t *testing.T) {
	b := newBench(t, strings.Replace(prepared(""), `echo "$HOOK_RUN $status" >&3`, `echo "$HOOK_RUN $status" >&3; exit 0`, 1), nil)
	for n := range manyLost + 1 {
		if got := b.run("true"); got.err != nil {
			t.Fatal(got)
		}
		b.await("its end", func() bool { return len(b.pool.State("hook.sh").Workers) == 0 })
		all := b.pool.State("hook.sh").Problems
		if lost := n + 1; (len(all) == 1) != (lost >= manyLost) || len(all) == 1 && (all[0].Lost != lost || all[0].Failed != 0 ||
			all[0].Cause != "its worker ended with exit status 0") {
			t.Errorf("after %d: %+v", lost, all)
		}
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
