package failover

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func newWorkerStage(t *testing.T, slow string) *stage {
	s := newStage(t, slow)
	testenv.Script(t, s.hooks, "hook.sh", testenv.Testdata(t, "worker.sh", "$NS", s.namespace, "$DIR", s.dir, "$SLOW", slow))
	return s
}

// workers are the pids of a replica's workers so far.
func (s *stage) workers(name string) (pids []string) {
	for _, line := range s.lines("workers") {
		if pid, own := strings.CutPrefix(line, name+"-"); own {
			pids = append(pids, pid)
		}
	}
	return pids
}

// untilReady waits for so many workers of an operator.
func untilReady(op *testenv.Operator, n int) { op.UntilCount(n, "A worker of the hook is ready") }

// untilGone waits for the ends of processes.
func (s *stage) untilGone(pids []string) {
	s.t.Helper()
	for late := time.Now().Add(test.Patience); ; time.Sleep(20 * time.Millisecond) {
		there := slices.DeleteFunc(slices.Clone(pids), func(pid string) bool {
			text, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(text), ") Z ")
		})
		if len(there) == 0 {
			return
		}
		if time.Now().After(late) {
			s.t.Fatalf("still there: %q", there)
		}
	}
}
