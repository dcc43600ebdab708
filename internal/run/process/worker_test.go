package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestServedInWords(t *testing.T) {
	for want, s := range map[string]Served{
		"":                      {},
		"512th run of worker 3": {Worker: 3, Run: 512},
		"1st run of worker 1, after a start of 20ms": {Worker: 1, Run: 1, Started: 20 * time.Millisecond},
		"11th run of worker 1":                       {Worker: 1, Run: 11},
		"22nd run of worker 1":                       {Worker: 1, Run: 22},
		"113th run of worker 1":                      {Worker: 1, Run: 113},
		"103rd run of worker 1":                      {Worker: 1, Run: 103},
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

// lockedClock is a clock for several goroutines.
type lockedClock struct {
	mu sync.Mutex
	clock
}

func (c *lockedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.now()
}

func (c *lockedClock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock.sleep(d)
}

// A run of a worker that prints a lot is slowed down as any run, by its named pipes and by the worker's own output, and loses nothing. The
// next run has its own allowance.
func TestMuchOutputOfAWorker(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hook.sh")
	const script = `#!/usr/bin/env bash
echo ready >&3
while :; do
  vars=()
  while IFS= read -r -d '' v <&3; do
    [[ -n $v ]] || break
    vars+=("$v")
  done
  ((${#vars[@]})) || exit 0
  (export "${vars[@]}"; exec 3>&-; eval "$COMMAND")
  echo "${vars[0]#HOOK_RUN=} 0" >&3
done
`
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &lockedClock{}
	e := New(Options{TermDelay: time.Hour})
	e.now, e.sleep = c.now, c.sleep
	ready, discard := make(chan struct{}), func([]byte) {}
	in := Invocation{Hook: "hook.sh", Path: path, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: discard, Stderr: discard}
	w, err := e.StartResident(ResidentOptions{Invocation: in, ReadyTimeout: time.Hour, Ready: func() { close(ready) }, Ended: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(w.Run)
	defer running.Wait()
	defer w.Leave()
	<-ready
	const printed = 16 * 1000000
	for i, command := range []string{`yes 0123456789abcde | head -n 1000000 >"$HOOK_STDOUT"`, "yes 0123456789abcde | head -n 1000000 >&2",
		"echo a"} {
		before, lines, bytes := c.slept, 0, 0
		count := func(line []byte) { lines, bytes = lines+1, bytes+len(line)+1 }
		in := in
		in.Stdout, in.Stderr, in.Vars = count, count, []string{"COMMAND=" + command}
		in.Worker = &Worker{Run: fmt.Sprint(i), Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err")}
		result, err := w.Serve(t.Context(), in)
		slept := c.slept - before
		if i == 2 {
			if err != nil || lines != 1 || result.Slowed || slept != 0 {
				t.Errorf("%v: %d lines, slowed %t by %s", err, lines, result.Slowed, slept)
			}
			continue
		}
		const want = time.Duration(printed-freeOutput) * time.Second / slowRate
		if err != nil || lines != 1000000 || bytes != printed || !result.Slowed || slept < want-time.Second || slept > want+time.Second {
			t.Errorf("%s: %v: %d lines of %d bytes, slowed %t by %s, want %s", command, err, lines, bytes, result.Slowed, slept, want)
		}
	}
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
