package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// acts are what hooks do wrong, each a few times. No change may be missed by it.
var acts = []fault{
	misbehave("hook-fails", "fail", "fail"),
	misbehave("hook-killed", "kill", "kill", "kill"),
	touching(timeLimits, misbehave("hook-hangs", "hang", "hang")),
	misbehave("hook-removes-its-files", "remove-outputs", "remove-run"),
	destructive(misbehave("hook-removes-all-files", "remove-all", "remove-all")),
	misbehave("hook-hands-back-no-files", "fifo", "endless", "directory"),
	misbehave("hook-prints-no-text", "bytes"),
	misbehave("hook-half-of-its-patches-are-wrong", "patch 1"),
}

// misbehave returns a fault that lets hooks do things, one in each of their next runs.
func misbehave(name string, what ...string) fault {
	return fault{name: name, strict: true, end: nothing, begin: func(w *world) {
		for _, hook := range []string{"plain", "mirror"} {
			w.act(hook, what...)
		}
	}}
}

func touching(p part, f fault) fault {
	f.touches = p
	return f
}

// destructive marks a fault that spoils runs of other hooks, too.
func destructive(f fault) fault {
	begin := f.begin
	f.begin = func(w *world) {
		w.destroyed = true
		begin(w)
	}
	return f
}

func TestMisbehaviour(t *testing.T) {
	cluster := testenv.Shared(t)
	for i, f := range acts {
		t.Run(f.name, func(t *testing.T) {
			wanted(t, f.name)
			together(t)
			w := newWorld(t, cluster, seed()*1000+uint64(100+i), false, hooksFor()...)
			defer w.judge(f.name, time.Now())
			w.begin()
			f.begin(w)
			time.Sleep(w.length(f))
		})
	}
}

// alone runs a case with the hook "plain" and the hook "mirror", and hands it the world.
func alone(t *testing.T, name string, number uint64, prepare, do func(*world)) {
	wanted(t, name)
	together(t)
	w := newWorld(t, testenv.Shared(t), seed()*1000+number, false, "plain", "mirror")
	if prepare != nil {
		prepare(w)
	}
	defer w.judge(name, time.Now())
	w.begin()
	do(w)
}

// A hook that prints without end costs time, but neither memory nor log: 1 MiB of it is logged, and after 10 MiB it is read at 4 MiB/s.
func TestFloodOfOutput(t *testing.T) {
	var printed atomic.Int64
	alone(t, "hook-prints-256-MiB", 200, func(w *world) {
		w.ignore = func(line string) bool {
			if isOutput(line) {
				printed.Add(int64(len(line)))
			}
			return isOutput(line)
		}
		patient(w)
	}, func(w *world) {
		w.writer.stop()
		w.settle()
		before := w.usage()
		w.act("plain", "print 256")
		started := time.Now()
		w.settle()
		after := w.usage()
		fmt.Printf("  256 MiB of output: %.1f s, resident %d MiB before and %d MiB after\n", time.Since(started).Seconds(), before.resident>>10,
			after.resident>>10)
		if n := printed.Load(); n < 1<<19 || n > 1<<20 {
			w.t.Errorf("%d bytes were logged, want almost 1 MiB", n)
		}
		if grown := after.resident - before.resident; grown > 64<<10 {
			w.t.Errorf("the operator has grown by %d MiB", grown>>10)
		}
	})
}

// Patches without end are read, found wrong, and not one of them is carried out.
func TestFloodOfPatches(t *testing.T) {
	alone(t, "hook-writes-100-MiB-of-patches", 201, patient, func(w *world) {
		before := w.usage()
		w.act("plain", "patch 100")
		started := time.Now()
		w.settle()
		after := w.usage()
		fmt.Printf("  100 MiB of patches: %.1f s, resident %d MiB before and %d MiB after\n", time.Since(started).Seconds(), before.resident>>10,
			after.resident>>10)
		w.op.UntilLog("Hook failed. Will retry after delay.", "hook", "plain")
		// With the race detector memory counts several times.
		figure(w.t, "100 MiB of patches: resident at the peak", resident(w.t, w.op, residentPeak), 600, "MiB")
	})
}

// A child that outlives its hook and keeps its output open does not delay other runs.
func TestChildOutlivesHook(t *testing.T) {
	alone(t, "hook-forks", 202, nil, func(w *world) {
		w.act("plain", "fork 600")
		w.op.UntilLog("The hook has ended, but a process that it left behind kept its output open")
		endChild(w)
	})
}

// endChild ends the process that the hook "plain" has left behind.
func endChild(w *world) {
	text, err := os.ReadFile(filepath.Join(w.dir, "plain.child"))
	w.must(err)
	pid, err := strconv.Atoi(string(text))
	w.must(err)
	w.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
}

// isOutput reports whether a line of the log is output of a hook.
func isOutput(line string) bool { return strings.Contains(line, `"output":"stdout"`) }

// patient increases the time limit for the runs of "plain".
func patient(w *world) {
	path := filepath.Join(w.dir, "plain.yaml")
	text, err := os.ReadFile(path)
	w.must(err)
	w.must(os.WriteFile(path, []byte(strings.Replace(string(text), "5s", "10m", 1)), 0o600))
}
