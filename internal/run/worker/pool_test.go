package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what has to come, however slow the machine is.
const patience = 3 * time.Minute

// plain is a worker without a library: each run evaluates the variable COMMAND.
const plain = `#!/usr/bin/env bash
PREPARATION
echo ready >&3
while :; do
  vars=()
  while IFS= read -r -d '' v <&3; do
    [[ -n $v ]] || break
    vars+=("$v")
  done
  ((${#vars[@]})) || exit 0
  export "${vars[@]}"
  eval "$COMMAND"
  status=$?
  echo "$HOOK_RUN $status" >&3
done
`

// bench has a pool and one hook.
type bench struct {
	t    *testing.T
	pool *Pool
	path string
	dir  string
	log  *syncBuffer
	// timeout limits each run.
	timeout time.Duration
	// ctx ends runs. printed, if set, gets each line of stdout when it comes.
	ctx     context.Context
	printed func(string)

	mu   sync.Mutex
	runs int
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

func newBench(t *testing.T, script string, change func(*Options, *process.Options)) *bench {
	t.Helper()
	for _, program := range []string{"bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
	b := &bench{t: t, ctx: t.Context(), dir: t.TempDir(), log: &syncBuffer{}}
	b.path = filepath.Join(b.dir, "hook.sh")
	if err := os.WriteFile(b.path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{ReadyTimeout: patience, Log: slog.New(slog.NewTextHandler(b.log, nil))}
	p := process.Options{TermDelay: patience}
	if change != nil {
		change(&o, &p)
	}
	o.Executor = process.New(p)
	b.pool = New(o)
	t.Cleanup(b.pool.Close)
	return b
}

func prepared(with string) string { return strings.Replace(plain, "PREPARATION", with, 1) }

// invocation is a run of a command.
func (b *bench) invocation(command string) process.Invocation {
	b.mu.Lock()
	b.runs++
	id := strconv.Itoa(b.runs) + "-1"
	b.mu.Unlock()
	return process.Invocation{
		Hook: "hook.sh", Path: b.path, Dir: b.dir, Timeout: b.timeout, Env: []string{"PATH=" + os.Getenv("PATH")},
		Vars:   []string{"COMMAND=" + command},
		Worker: &process.Worker{Run: id, Stdout: filepath.Join(b.dir, id+"-out"), Stderr: filepath.Join(b.dir, id+"-err")},
	}
}

// outcome is what a run printed and how it ended.
type outcome struct {
	stdout, stderr []string
	result         process.Result
	err            error
}

func (b *bench) run(command string) outcome { return b.runWith(command, nil) }

func (b *bench) runWith(command string, change func(*process.Invocation)) (o outcome) {
	in := b.invocation(command)
	in.Stdout = func(line []byte) {
		if o.stdout = append(o.stdout, string(line)); b.printed != nil {
			b.printed(string(line))
		}
	}
	in.Stderr = func(line []byte) { o.stderr = append(o.stderr, string(line)) }
	if change != nil {
		change(&in)
	}
	o.result, o.err = b.pool.Execute(b.ctx, in)
	return o
}

func (o outcome) String() string {
	return fmt.Sprintf("stdout %q stderr %q worker %d run %d error %v", o.stdout, o.stderr, o.result.Served.Worker, o.result.Served.Run, o.err)
}

// Rules 2 to 4: one worker serves runs one after the other, and a run ends with the status in the answer.
func TestOneWorkerServesRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared("count=0"), nil)
	for _, test := range []struct{ command, want string }{
		{"echo $((++count)) $HOOK_RUN", `stdout ["1 1-1"] stderr [] worker 1 run 1 error <nil>`},
		{"echo $((++count)); echo bad >&2; false", `stdout ["2"] stderr ["bad"] worker 1 run 2 error hook.sh FAILED: bad`},
		{"(exit 255)", `stdout [] stderr [] worker 1 run 3 error hook.sh FAILED: it printed nothing: exit status 255`},
		{"echo $((++count)); (exit 137)", `stdout ["3"] stderr [] worker 1 run 4 error hook.sh FAILED: it printed nothing: exit status 137 ` +
			`(SIGKILL: perhaps the memory was not enough)`},
		{`printf '%s|' "$TEXT"`, `stdout ["a b" "\"c\"|"] stderr [] worker 1 run 5 error <nil>`},
	} {
		got := b.runWith(test.command, func(in *process.Invocation) { in.Vars = append(in.Vars, "TEXT=a b\n\"c\"") })
		if got.String() != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.command, got, test.want)
		}
		var exit *process.ExitError
		if got.err != nil && !errors.As(got.err, &exit) {
			t.Errorf("%T", got.err)
		}
	}
	if got := b.runWith("true", func(in *process.Invocation) { in.Vars = append(in.Vars, "TEXT="+strings.Repeat("x", 65<<10)) }); got.err ==
		nil || !strings.Contains(got.err.Error(), "at most 65536") {
		t.Error(got)
	}
	if got := b.runWith(`echo ${#TEXT}`,
		func(in *process.Invocation) { in.Vars = append(in.Vars, "TEXT="+strings.Repeat("x", 60<<10)) }); got.err != nil ||
		got.result.Served.Worker != 1 {
		t.Error(got)
	}
}

// Rules 6 to 8: what is printed while a run is in progress belongs to it, by the worker's own output or by the named pipes.
func TestOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared("echo preparing; echo oops >&2"), func(_ *Options, p *process.Options) { p.DrainDelay = patience })
	short := newBench(t, prepared(""), func(_ *Options, p *process.Options) { p.DrainDelay = 200 * time.Millisecond })
	for _, test := range []struct {
		name, command, stdout, stderr string
		heldOpen                      bool
	}{
		{"own output", "echo a; echo b >&2", "a", "b", false},
		{"no line end", "printf a", "a", "", false},
		{"the pipes", `exec 4>"$HOOK_STDOUT" 5>"$HOOK_STDERR"; echo a >&4; echo b >&5; exec 4>&- 5>&-`, "a", "b", false},
		{"a pipe twice", `echo a >"$HOOK_STDOUT"; echo b >"$HOOK_STDOUT"`, "a|b", "", false},
		{"without blocking", `exec 9<>"$HOOK_STDOUT" 4>"$HOOK_STDOUT" 9>&-; echo a >&4; exec 4>&-`, "a", "", false},
		{"a subshell", `(exec >"$HOOK_STDOUT" 2>"$HOOK_STDERR"; echo a; echo b >&2)`, "a", "b", false},
		{"behind a filter", `(exec >"$HOOK_STDOUT"; exec > >(sed s/a/b/); echo a)`, "b", "", false},
		{"a background process", `(exec >"$HOOK_STDOUT"; sleep 20 & echo a)`, "a", "", true},
		{"a later line", `(exec >"$HOOK_STDOUT"; (sleep 0.05; echo b) & echo a)`, "a|b", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bench := b
			if test.heldOpen {
				bench = short
			}
			got := bench.run(test.command)
			if got.err != nil || strings.Join(got.stdout, "|") != test.stdout || strings.Join(got.stderr, "|") != test.stderr ||
				got.result.HeldOpen != test.heldOpen {
				t.Error(got, got.result.HeldOpen)
			}
		})
	}
	big := b.run(`head -c 1048576 /dev/zero | tr '\0' x`)
	if big.err != nil || len(strings.Join(big.stdout, "")) != 1<<20 {
		t.Errorf("%d lines, error %v", len(big.stdout), big.err)
	}
	if big = b.run(`(head -c 1048576 /dev/zero | tr '\0' y >"$HOOK_STDOUT")`); big.err != nil || len(strings.Join(big.stdout, "")) != 1<<20 {
		t.Errorf("%d lines, error %v", len(big.stdout), big.err)
	}
	// Printed between two runs: it belongs to none.
	between := b.run(`(sleep 0.05; echo between; echo >"$HOOK_STDOUT.over") &`)
	b.await("the file of the background process", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, strconv.Itoa(b.runs)+"-1-out.over"))
		return err == nil
	})
	if next := b.run("echo next"); between.err != nil || len(between.stdout) != 0 || strings.Join(next.stdout, "|") != "next" {
		t.Error(between, next)
	}
	for _, want := range []string{"msg=preparing hook=hook.sh worker=1 output=stdout", "msg=oops hook=hook.sh worker=1 output=stderr",
		"msg=between hook=hook.sh worker=1 output=stdout"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, b.log)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*-out")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// await waits until something is true.
func (b *bench) await(what string, is func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s has not come\n%s", what, b.log)
		}
	}
}

// Rule 9: what breaks the protocol fails the run, names its cause, and ends the worker. What comes outside of runs fails none.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, command, want string
		// fails: the run fails. Otherwise the worker is replaced after it.
		fails bool
	}{
		{"another run", "echo 9-9 0 >&3", "it answered another run", true},
		{"no answer", "echo hello >&3", "it sent a line that is no answer: the id of the run and its exit status", true},
		{"no status", `echo "$HOOK_RUN x" >&3`, "it sent a line that is no answer", true},
		{"a status that is none", `echo "$HOOK_RUN 256" >&3`, "it sent a line that is no answer", true},
		{"a long line", `printf '%5000s' x >&3; sleep 60`, "it sent a line of more than 4 KiB", true},
		{"a closed socket", "exec 3>&-; sleep 60", "its worker has closed its socket", true},
		{"an exit", "exit 3", "its worker ended with exit status 3", true},
		{"a signal", "kill -9 $$", "its worker ended with signal: killed", true},
		{"another program", "exec 3>&-; exec sleep 60", "its worker has closed its socket", true},
		{"half a line", `printf "$HOOK_RUN" >&3; exit 0`, "its worker ended with exit status 0", true},
		{"two answers", `echo "$HOOK_RUN 0" >&3`, "it sent something while it served no run", false},
		{"an exit afterwards", `(sleep 0.05; kill -9 $$) &`, "its worker ended with signal: killed", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, prepared(""), nil)
			got := b.run("echo words >&2; " + test.command)
			var broken *process.WorkerError
			switch {
			case test.fails && (!errors.As(got.err, &broken) || !strings.Contains(broken.Problem, test.want) || broken.Stderr != "words"):
				t.Error(got)
			case !test.fails && got.err != nil:
				t.Error(got)
			case !test.fails:
				b.await("the end of the worker", func() bool { return strings.Contains(b.log.String(), test.want) })
			}
			if next := b.run("echo next"); next.err != nil || next.result.Served.Worker != 2 || strings.Join(next.stdout, "") != "next" {
				t.Error(next)
			}
		})
	}
}

// Rule 9: the program of a failed run does not go on beside the next attempt.
func TestNothingOutlivesAFailedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(""), nil)
	got := b.run(`sleep 1000 & echo $!; kill -9 $$`)
	if got.err == nil || len(got.stdout) != 1 {
		t.Fatal(got)
	}
	pid, _ := strconv.Atoi(got.stdout[0])
	b.await("the end of the program", func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// Rule 10: a run that exceeds its time limit fails, whatever is answered, and the worker is replaced.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"it sleeps":             "sleep 1000",
		"it answers afterwards": `trap 'echo "$HOOK_RUN 0" >&3' TERM; sleep 1000 & wait; sleep 1000`,
		"it ignores SIGTERM":    `trap '' TERM; while :; do sleep 1; done`,
		"it is stopped":         `kill -STOP $$`,
		"its fork sleeps":       `(sleep 1000)`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, prepared(""), func(_ *Options, p *process.Options) { p.TermDelay = 100 * time.Millisecond })
			b.run("true")
			run := func() outcome {
				return b.runWith(command, func(in *process.Invocation) { in.Timeout = 100 * time.Millisecond })
			}
			got := run()
			for strings.Contains(fmt.Sprint(got.err), "not started") { // on a slow machine it may be over before the run is sent
				got = run()
			}
			var late *process.TimeoutError
			if !errors.As(got.err, &late) || got.result.Usage.Wall < 100*time.Millisecond {
				t.Error(got)
			}
			if next := b.run("echo next"); next.err != nil || next.result.Served.Worker != 2 {
				t.Error(next)
			}
		})
	}
}

// A run that is stopped ends as by its time limit.
func TestStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(""), func(_ *Options, p *process.Options) { p.TermDelay = 100 * time.Millisecond })
	ctx, stop := context.WithCancelCause(t.Context())
	in := b.invocation(`echo $$; trap '' TERM; while :; do sleep 1; done`)
	pid := 0
	in.Started = func(p int) { pid = p }
	in.Stdout = func(line []byte) {
		if string(line) != strconv.Itoa(pid) {
			t.Errorf("the worker is %s, reported %d", line, pid)
		}
		stop(&process.StopError{Hook: "hook.sh"})
	}
	in.Stderr = func([]byte) {}
	if _, err := b.pool.Execute(ctx, in); !errors.As(err, new(*process.StopError)) {
		t.Error(err)
	}
}

// Rule 9: a worker that does not get ready fails the run that waits for it.
func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"it ends", "#!/bin/sh\necho sorry >&2; exit 2",
			`its worker ended with exit status 2 before it was ready: end the hook with hook::run or hook.run(), or remove settings.worker: sorry`},
		{"another line", "#!/bin/sh\necho hello >&3; sleep 1000", `its worker has broken the protocol: its first line is not "ready"`},
		{"it is late", "#!/bin/sh\nsleep 1000", "its worker was not ready after 200ms"},
		{"it is killed", "#!/bin/sh\nkill -9 $$", "its worker ended with signal: killed before it was ready"},
		{"it cannot be started", "#!/no/such/interpreter\n", `the interpreter "/no/such/interpreter"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, test.script, func(o *Options, _ *process.Options) { o.ReadyTimeout = patience })
			if test.name == "it is late" {
				b.pool.opts.ReadyTimeout = 200 * time.Millisecond
			}
			if got := b.run("true"); got.err == nil || !strings.Contains(got.err.Error(), test.want) {
				t.Error(got)
			}
		})
	}
}

// Section 3: the start of a worker is not part of the time limit of the run that waits for it.
func TestStartIsNotPartOfTheTimeLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(`read <"$0.gate"`), nil)
	if err := syscall.Mkfifo(b.path+".gate", 0o600); err != nil {
		t.Fatal(err)
	}
	const limit = 100 * time.Millisecond
	var opening sync.WaitGroup
	opening.Go(func() {
		gate, err := os.OpenFile(b.path+".gate", os.O_WRONLY, 0) // the worker has started when it reads
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(2 * limit)
		gate.Close()
	})
	got := b.runWith("true", func(in *process.Invocation) { in.Timeout = limit })
	opening.Wait()
	var late *process.TimeoutError // of the run itself, on a slow machine
	if got.err != nil && !errors.As(got.err, &late) || got.result.Served.Worker != 1 || got.result.Served.Started < limit {
		t.Error(got, got.result.Served)
	}
}

// What a background process prints during a later run does not belong to that one, if it has the output of its own run.
func TestBackgroundProcessOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(""), func(_ *Options, p *process.Options) { p.DrainDelay = 10 * time.Millisecond })
	gate := b.path + ".gate"
	if err := errors.Join(syscall.Mkfifo(gate, 0o600), syscall.Mkfifo(gate+".done", 0o600)); err != nil {
		t.Fatal(err)
	}
	got := b.run(`(exec >"$HOOK_STDOUT"; trap '' PIPE; (read <"$0.gate"; echo late 2>/dev/null; echo >"$0.gate.done") & echo first)`)
	next := b.run(`echo next; echo >"$0.gate"; read <"$0.gate.done"`)
	if got.err != nil || strings.Join(got.stdout, "|") != "first" || !got.result.HeldOpen || next.err != nil ||
		strings.Join(next.stdout, "|") != "next" {
		t.Error(got, next)
	}
}

// A run of which the worker has ended while it was idle goes to another one, and that is no failure.
func TestIdleWorkerThatEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(""), nil)
	for i := range 5 {
		got := b.run("echo $$")
		if got.err != nil || got.result.Served.Worker != i+1 || got.result.Served.Run != 1 {
			t.Fatal(got)
		}
		pid, _ := strconv.Atoi(got.stdout[0])
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.await("the end of the worker", func() bool { return !alive(pid) })
	}
}

// Section 1: maxRuns, maxAge and idleTimeout.
func TestLimits(t *testing.T) {
	t.Parallel()
	limited := func(change func(w *process.Worker)) func(*process.Invocation) {
		return func(in *process.Invocation) { change(in.Worker) }
	}
	t.Run("maxRuns", func(t *testing.T) {
		b := newBench(t, prepared(""), nil)
		for i := range 6 {
			if got := b.runWith("true", limited(func(w *process.Worker) { w.MaxRuns = 2 })); got.err != nil || got.result.Served.Worker != 1+i/2 ||
				got.result.Served.Run != 1+i%2 {
				t.Error(got)
			}
		}
	})
	for name, change := range map[string]func(w *process.Worker){
		"maxAge":      func(w *process.Worker) { w.MaxAge = 300 * time.Millisecond },
		"idleTimeout": func(w *process.Worker) { w.IdleTimeout = 50 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, prepared("trap 'echo ends' EXIT"), nil)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { b.pool.Run(ctx) })
			if got := b.runWith("true", limited(change)); got.err != nil {
				t.Error(got)
			}
			b.await("the end of the worker", func() bool { return strings.Contains(b.log.String(), "msg=ends") })
			cancel()
			running.Wait()
		})
	}
}

// Rule 5: a worker that does not end with its socket gets SIGTERM and then SIGKILL.
func TestEndOfWorkers(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"it ends":            prepared("trap 'echo ends' EXIT"),
		"it ignores the end": strings.Replace(prepared(""), "|| exit 0", "|| sleep 1000", 1),
		"and SIGTERM":        strings.Replace(prepared("trap '' TERM"), "|| exit 0", "|| while :; do sleep 1; done", 1),
	} {
		t.Run(name, func(t *testing.T) {
			delay := 100 * time.Millisecond
			if name == "it ends" {
				delay = patience
			}
			b := newBench(t, script, func(_ *Options, p *process.Options) { p.TermDelay = delay })
			got := b.run("echo $$")
			pid, _ := strconv.Atoi(strings.Join(got.stdout, ""))
			b.pool.Close()
			if got.err != nil || alive(pid) || (name == "it ends") != strings.Contains(b.log.String(), "msg=ends") {
				t.Error(got, alive(pid), b.log)
			}
		})
	}
	t.Run("a killed operator", func(t *testing.T) {
		kill, now := context.WithCancel(t.Context())
		b := newBench(t, strings.Replace(prepared("trap '' TERM"), "|| exit 0", "|| while :; do sleep 1; done", 1),
			func(_ *Options, p *process.Options) { p.Kill = kill })
		got := b.run("echo $$")
		now()
		b.pool.Close()
		if pid, _ := strconv.Atoi(strings.Join(got.stdout, "")); alive(pid) {
			t.Error("it is still there")
		}
	})
}

// Section 3: at most as many workers as runs are in progress, and the one that served last serves first.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared(""), nil)
	for _, n := range []int{1, 4, 4, 2} {
		var running sync.WaitGroup
		for range n {
			running.Go(func() {
				if got := b.run("sleep 0.2"); got.err != nil {
					t.Error(got)
				}
			})
		}
		running.Wait()
		b.pool.mu.Lock()
		if workers := b.pool.numbers["hook.sh"]; workers > 4 {
			t.Errorf("%d workers were started", workers)
		}
		b.pool.mu.Unlock()
	}
	first := b.run("true").result.Served.Worker
	for range 3 {
		if got := b.run("true"); got.result.Served.Worker != first {
			t.Error(got, first)
		}
	}
}

// Section 3: a worker for clients is always there. After a reload its successor is started, and the others end.
func TestWorkersThatAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, prepared("trap 'echo ends $FILES' EXIT; echo begins $FILES"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.pool.Run(ctx) })
	defer running.Wait()
	defer cancel()
	of := func(files int, client bool) process.Invocation {
		in := b.invocation("true")
		in.Env = append(in.Env, "FILES="+strconv.Itoa(files))
		in.Worker.Files, in.Worker.Client = files, client
		in.Stdout, in.Stderr = func([]byte) {}, func([]byte) {}
		return in
	}
	b.pool.Keep([]process.Invocation{of(1, false), of(1, true)})
	b.await("the first worker", func() bool { return strings.Contains(b.log.String(), "begins 1") })
	b.await("that it is ready", func() bool { return strings.Contains(b.log.String(), "is ready") })
	if result, err := b.pool.Execute(t.Context(), of(1, true)); err != nil || result.Served.Worker != 1 {
		t.Error(result, err)
	}
	if result, err := b.pool.Execute(t.Context(), of(1, false)); err != nil || result.Served.Worker != 2 {
		t.Error(result, err)
	}
	b.pool.Keep([]process.Invocation{of(2, false), of(2, true)})
	b.await("the ends of the workers of the old files", func() bool { return strings.Count(b.log.String(), "ends 1") == 2 })
	b.await("the successor", func() bool { return strings.Contains(b.log.String(), "begins 2") })
	if result, err := b.pool.Execute(t.Context(), of(1, false)); err != nil || result.Served.Worker < 3 {
		t.Error(result, err) // a run that has begun with the old files has a worker of these
	}
	b.await("its end", func() bool { return strings.Count(b.log.String(), "ends 1") == 3 })
	b.pool.Keep(nil)
	b.await("the end of the last worker", func() bool { return strings.Contains(b.log.String(), "ends 2") })
}

// What a hook needs is made before each start, also of a worker that no run waits for.
func TestPrepare(t *testing.T) {
	var b *bench
	b = newBench(t, prepared(`source "$0.lib"`), func(o *Options, _ *process.Options) {
		o.Prepare = func(process.Invocation) error { return os.WriteFile(b.path+".lib", []byte("echo library\n"), 0o600) }
	})
	libraries := func(n int) {
		t.Helper()
		b.await("a worker with the library", func() bool { return strings.Count(b.log.String(), "msg=library") == n })
	}
	if got := b.run(`echo 'exit 3' >"$0.lib"; kill -9 $$`); got.err == nil {
		t.Error(got)
	}
	if got := b.run("true"); got.err != nil {
		t.Error(got)
	}
	libraries(2)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.pool.Run(ctx) })
	defer running.Wait()
	defer cancel()
	in := b.invocation("")
	in.Worker.Client = true
	in.Stdout, in.Stderr = func([]byte) {}, func([]byte) {}
	b.pool.Keep([]process.Invocation{in})
	libraries(3)
	b.await("that it is ready", func() bool { return strings.Count(b.log.String(), "is ready") == 3 })
	in.Vars = []string{`COMMAND=echo 'exit 3' >"$0.lib"; (sleep 0.05; kill -9 $$) &`}
	if _, err := b.pool.Execute(t.Context(), in); err != nil {
		t.Error(err)
	}
	libraries(4) // its successor
}

// A pool whose workers are idle waits: a look at its groups is no reason for the next one.
func TestIdlePoolWaits(t *testing.T) {
	b := newBench(t, prepared(""), nil)
	if got := b.run("true"); got.err != nil {
		t.Fatal(got)
	}
	<-b.pool.wake // for the idle worker
	if due := b.pool.tick(time.Now()); !due.IsZero() || len(b.pool.wake) != 0 {
		t.Errorf("the next look is at %s, %d are requested", due, len(b.pool.wake))
	}
}

// Section 3: fencing is checked before each start and each message.
func TestFence(t *testing.T) {
	lost := errors.New("another replica leads")
	var answers []error
	b := newBench(t, prepared(""), func(o *Options, _ *process.Options) {
		o.Check = func(context.Context) error { err := answers[0]; answers = answers[1:]; return err }
	})
	for _, test := range []struct {
		answers []error
		want    error
	}{{[]error{lost}, lost}, {[]error{nil, lost}, lost}, {[]error{nil, nil}, nil}} {
		answers = test.answers
		if got := b.run("true"); !errors.Is(got.err, test.want) || len(answers) != 0 {
			t.Error(got, len(answers))
		}
	}
}

// Rule 11: CPU time of the worker and of what it has waited for.
func TestUsage(t *testing.T) {
	b := newBench(t, prepared(""), nil)
	b.run("true")
	got := b.run(`sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; i=0; while ((i++ < 100000)); do :; done`)
	if cpu := got.result.Usage.User + got.result.Usage.System; got.err != nil || cpu < 50*time.Millisecond || got.result.Usage.MaxRSS < 1<<20 {
		t.Error(got, got.result.Usage)
	}
	if got = b.run("true"); got.result.Usage.User > 50*time.Millisecond {
		t.Error(got.result.Usage)
	}
}

// kill -9 of the worker in any state: each run either fails, or has been done once. A failed one can be tried again.
func TestKillsAtAnyTime(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	b := newBench(t, prepared(`echo $$ >>"$0.pids"`), nil)
	random := rand.New(rand.NewPCG(1, 2))
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
			}
			pids, _ := os.ReadFile(b.path + ".pids")
			if all := strings.Fields(string(pids)); len(all) > 0 {
				if pid, _ := strconv.Atoi(all[len(all)-1]); pid > 0 && alive(pid) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	})
	failures := 0
	for i := range rounds {
		file := filepath.Join(b.dir, "done-"+strconv.Itoa(i))
		for {
			_ = os.Remove(file) // the files of an attempt are its own
			got := b.run("sleep 0.005; echo x >>" + file)
			if got.err == nil {
				break
			}
			var broken *process.WorkerError
			if failures++; !errors.As(got.err, &broken) {
				t.Fatal(got)
			}
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "x\n" {
			t.Errorf("%q, error %v", text, err)
		}
	}
	close(stop)
	killer.Wait()
	t.Logf("%d runs, %d attempts failed", rounds, failures)
}

// Nothing is left of many runs: descriptors, processes and pipes.
func TestNothingIsLeft(t *testing.T) {
	b := newBench(t, prepared(""), nil)
	b.run("true")
	count := func() int { all, _ := os.ReadDir("/proc/self/fd"); return len(all) }
	before := count()
	for range 200 {
		if got := b.run("echo a"); got.err != nil {
			t.Fatal(got)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if files, _ := os.ReadDir(b.dir); len(files) != 1 {
		t.Errorf("%v", slices.Collect(func(yield func(string) bool) {
			for _, f := range files {
				yield(f.Name())
			}
		}))
	}
}

// A worker that ends between its grant and a check that fails serves no other run.
func TestWorkerEndsBeforeItsRun(t *testing.T) {
	var checks atomic.Int32
	var b *bench
	b = newBench(t, prepared(""), func(o *Options, _ *process.Options) {
		o.Check = func(context.Context) error {
			if checks.Add(1) != 4 { // the second check of the second run
				return nil
			}
			_ = syscall.Kill(b.pool.State("hook.sh").Workers[0].PID, syscall.SIGKILL)
			for len(b.pool.State("hook.sh").Workers) > 0 {
				time.Sleep(10 * time.Millisecond)
			}
			return errors.New("fenced")
		}
	})
	for run, fenced := range []bool{false, true, false} {
		if _, err := b.pool.Execute(t.Context(), b.invocation("true")); (err != nil) != fenced {
			t.Errorf("run %d: %v", run, err)
		}
	}
}

// A run that has new files before Keep names them does not let later runs have workers of their own.
func TestKeepDuringTheFirstRunOfNewFiles(t *testing.T) {
	b := newBench(t, prepared(""), nil)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.pool.Run(ctx) })
	defer func() { end(); running.Wait() }()
	of := func(command string, files int) process.Invocation {
		in := b.invocation(command)
		in.Worker.Files, in.Worker.Client = files, true
		return in
	}
	b.pool.Keep([]process.Invocation{of("true", 1)})
	for run := range 3 {
		result, err := b.pool.Execute(ctx, of("true", 2))
		if err != nil || result.Served.Run != run+1 {
			t.Errorf("run %d before the files are named: its worker has served %d, error %v", run+1, result.Served.Run, err)
		}
	}
	began, gate := filepath.Join(b.dir, "began"), filepath.Join(b.dir, "gate")
	if err := errors.Join(syscall.Mkfifo(began, 0o600), syscall.Mkfifo(gate, 0o600)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	in := of(": >"+began+"; read <"+gate, 2)
	go func() { _, err := b.pool.Execute(ctx, in); served <- err }()
	if _, err := os.ReadFile(began); err != nil { // until the run closes it
		t.Fatal(err)
	}
	b.pool.Keep([]process.Invocation{of("true", 2)})
	if err := os.WriteFile(gate, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for range 5 {
		result, err := b.pool.Execute(ctx, of("true", 2))
		if err != nil {
			t.Fatal(err)
		}
		if result.Served.Run == 1 {
			fresh++
		}
	}
	if fresh > 1 {
		t.Errorf("%d of 5 runs have a worker of their own", fresh)
	}
}
