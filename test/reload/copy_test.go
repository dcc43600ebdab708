package reload

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// What runs of a hook have left behind ends with the hook, and nothing else does.
func TestRemovedHookLeftProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found in /proc")
	}
	cluster := testenv.Either(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	pids := map[string]int{}
	for _, name := range []string{"leaves", "leaves-1"} {
		d.put(name, "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi\n"+
			"sleep 600 >/dev/null 2>&1 &\necho pid $!\n", 0o755)
	}
	op := start(t, cluster, d)
	for _, name := range []string{"leaves", "leaves-1"} {
		pid, err := strconv.Atoi(strings.TrimPrefix(op.UntilLog("pid ", "hook", name).Fields["msg"], "pid "))
		if err != nil {
			t.Fatal(err)
		}
		pids[name] = pid
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	}
	d.remove("leaves")
	op.UntilLog("Processes that a removed hook has left behind are ended", "hook", "leaves", "processes", "1")
	if err := syscall.Kill(pids["leaves-1"], 0); err != nil {
		t.Errorf("the process of another hook: %v", err)
	}
	for late := time.Now().Add(test.Patience); ; time.Sleep(10 * time.Millisecond) { // its parent is not the test
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pids["leaves"]))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the process is still there")
		}
	}
}
