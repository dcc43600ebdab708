package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// With these the operator does not wait long before it runs a killed hook again.
const (
	retryMinDelay = "SHELL_OPERATOR_RETRY_MIN_DELAY=100ms"
	retryMaxDelay = "SHELL_OPERATOR_RETRY_MAX_DELAY=100ms"
)

// A hook leads a process group of its own, so 0 is the hook and all that it has started. Without a binding context it is
// the config call, which is not retried. A run is killed once, also if two of the programs run concurrently: each run has
// a folder of its own.
const wrapper = `#!/bin/sh
status=0
'%[1]s' "$@" || status=$?
if [ -n "${BINDING_CONTEXT_PATH-}" ] && [ ! -e '%[2]s' ] && mkdir "${BINDING_CONTEXT_PATH%%/*}/killed" 2>/dev/null && mkdir '%[2]s'; then
  kill -9 0
fi
exit "$status"
`

// killedOnce returns a PATH for hooks. Each of the programs does its work the first time that a run calls it, and then
// kills the run half-way: whatever the hook does after that is not done. Later calls are as usual. The test fails if a
// program has killed no run by its end.
func killedOnce(t testing.TB, programs ...string) (env string) {
	t.Helper()
	dir := t.TempDir()
	path := test.Tools(t) + ":" + os.Getenv("PATH")
	for _, program := range programs {
		killed := filepath.Join(dir, "killed-by-"+program)
		text := fmt.Sprintf(wrapper, find(t, program, path), killed)
		testenv.Script(t, dir, program, text)
		t.Cleanup(func() {
			if _, err := os.Stat(killed); err != nil {
				t.Errorf("no run was killed by %s", program)
			}
		})
	}
	return "PATH=" + dir + ":" + path
}

// find returns the program that a PATH leads to.
func find(t testing.TB, program, path string) string {
	t.Helper()
	for dir := range strings.SplitSeq(path, ":") {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	t.Fatalf("there is no program %s", program)
	return ""
}

// stop ends the operator, so that it can be started a second time.
func (e *example) stop() {
	e.t.Helper()
	e.operator.Signal(syscall.SIGTERM)
	if status := e.operator.Wait(); status != 0 {
		e.t.Errorf("the operator ended with status %d", status)
	}
}

// failures is the number of runs that failed.
func (e *example) failures() int { return e.operator.Count("Hook failed") }
