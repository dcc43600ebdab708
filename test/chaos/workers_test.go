package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// letWorkersServe lets a worker serve the runs of each hook.
func (w *world) letWorkersServe() {
	w.t.Helper()
	for _, name := range w.hooks() {
		path := filepath.Join(w.dir, name+".yaml")
		text, err := os.ReadFile(path)
		w.must(err)
		w.must(os.WriteFile(path, []byte(strings.Replace(string(text), "settings: {", "settings: {worker: true, ", 1)), 0o600))
	}
	w.workers = len(w.hooks()) // no hook has two runs at the same time
}

// workersOf are the pids of the workers of a hook that are there, the last one last.
func (w *world) workersOf(hook string) (pids []int) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, hook+".workers"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		w.must(err)
		// A worker has the name of the file of its hook: another process may have the pid by now.
		stat, err := os.ReadFile(filepath.Join("/proc", field, "stat"))
		if err == nil && strings.HasPrefix(string(stat), field+" ("+hook+") ") && !strings.HasPrefix(string(stat), field+" ("+hook+") Z") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Workers are killed at any moment, and the operator, too: no change is missed, the contexts of a run that has begun are delivered again,
// and the workers of killed operators end.
func TestWorkersKilled(t *testing.T) {
	const name = "worker-killed"
	wanted(t, name)
	together(t)
	w := newWorld(t, testenv.Shared(t), seed()*1000+400, false, hooksFor()...)
	w.letWorkersServe()
	w.destroyed = true // a run whose worker is killed before its answer has failed, whatever the hook has written down
	defer w.judge(name, time.Now())
	w.begin()
	hooks := w.hooks()
	for _, hook := range []string{"plain", "mirror"} {
		w.act(hook, slices.Repeat([]string{"slow 100", "slow 20", "kill", "fail"}, 10)...) // so that runs are under way
	}
	w.hide(func() {
		const kills = 30
		late := time.Now().Add(patience)
		for killed := 0; killed < kills; {
			if time.Now().After(late) {
				t.Fatalf("only %d workers were killed: the operator has not met the fault", killed)
			}
			hook := hooks[w.random.IntN(len(hooks))]
			if w.random.IntN(2) == 0 {
				hook = "plain"
			}
			if all := w.workersOf(hook); len(all) > 0 && syscall.Kill(all[len(all)-1], syscall.SIGKILL) == nil {
				if killed++; killed%8 == 0 {
					w.kill()
					w.launch()
				}
			}
			time.Sleep(time.Duration(w.random.IntN(150)) * time.Millisecond)
		}
	})
	for late := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		left := 0
		for _, hook := range hooks {
			left += max(0, len(w.workersOf(hook))-1)
		}
		if left == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d workers of earlier operators are still there", left)
		}
	}
}
