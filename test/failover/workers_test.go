package failover

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The same hook as a worker, which writes down each worker as "NAME-PID". Clients have one of their own.
const workerText = `#!/bin/bash
source "$SHELL_LIB"
[[ -z ${HOOK_WORKER_FD:-} ]] || echo "$POD_NAME $$" >>%[2]s/workers
__config__() {
  echo '{configVersion: v1, settings: {worker: true}, kubernetes: [{name: maps, kind: ConfigMap, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [%[1]s]}}}], http: [{name: greet, method: GET, path: /greet}]}'
}
__on_http::greet() { http::respond 200 hello; }
__on_kubernetes::maps() {
  echo "start $POD_NAME" >>%[2]s/runs
  names=$(context::objects '.object.metadata.name')
  for name in $names; do echo "$name" >>%[2]s/received; done
  if grep -qx slow <<<"$names" && [[ ! -e %[2]s/quick ]]; then
    echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "%[1]s"}}}' >>"$KUBERNETES_PATCH_PATH"
    echo "slow run"
    sleep %[3]s
  fi
  echo "end $POD_NAME" >>%[2]s/runs
}
hook::run "$@"
`

func newWorkerStage(t *testing.T, slow string) *stage {
	s := newStage(t, slow)
	testenv.Script(t, s.hooks, "hook.sh", fmt.Sprintf(workerText, s.namespace, s.dir, slow))
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

// A standby has workers for clients only. The workers of the leader serve the last run and end, and the next leader starts its own.
func TestWorkersOfReplicas(t *testing.T) {
	s := newWorkerStage(t, "1")
	a, b := s.startBoth()
	untilReady(b, 1)
	untilReady(a, 2)
	if of := s.workers("b"); len(of) != 1 || len(s.workers("a")) != 2 {
		t.Errorf("the standby has the workers %q, the leader %q", of, s.workers("a"))
	}
	s.create("one", "slow")
	a.UntilLog("slow run")
	a.Signal(syscall.SIGTERM)
	s.create("while-ending")
	synchronized(b)
	if status := a.Wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	s.untilGone(s.workers("a"))
	s.create("last")
	b.Until("the last object", func([]testenv.Record) bool { return slices.Contains(s.lines("received"), "last") })
	for _, name := range []string{"one", "slow", "while-ending"} {
		if !slices.Contains(s.lines("received"), name) {
			t.Errorf("no run received %q", name)
		}
	}
	s.onePerTime()
	if of := s.workers("b"); len(of) != 2 {
		t.Errorf("the next leader has the workers %q", of)
	}
}
