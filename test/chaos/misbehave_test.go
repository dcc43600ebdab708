package chaos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
