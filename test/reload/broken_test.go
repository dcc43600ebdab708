package reload

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// With --broken-hooks skip a hook that is broken is left out, and reported; the others run. One that a reload breaks stays active, and its
// finalizers stay when it is broken at the next start, although those without a hook are removed.
func TestBrokenHooks(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	finalizing := func(name string) string {
		return strings.ReplaceAll("{configVersion: v1, kubernetes: [{name: %, kind: ConfigMap, executeHookOnEvent: [Added, Deleting], "+
			"namespace: {nameSelector: {matchNames: [$NS]}}, labelSelector: {matchLabels: {for: %}}, finalizer: example.com/%}]}", "%", name)
	}
	const fails = "#!/bin/sh\necho secret-value; exit 1\n"
	d.hook("keeps", "v1", finalizing("keeps"))
	d.hook("goes", "v1", finalizing("goes"))
	d.put("new", fails, 0o755)
	create := func(name, hook string) {
		t.Helper()
		cluster.KubectlInput(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", labels: {for: "+hook+"}}",
			"-n", d.ns, "create", "-f", "-")
	}
	create("a", "keeps")
	create("other", "goes")
	flags := []string{"--broken-hooks", "skip", "--orphan-finalizers", "remove", "--namespace", d.ns, "--instance", d.ns}
	op := start(t, cluster, d, flags...)
	until(op, t, "keeps v1: keeps Synchronization a", "goes v1: goes Synchronization other")
	op.UntilLog("A hook is broken and left out", "hook", "new")
	asks := func(op *testenv.Operator, status int, want string, args ...string) {
		t.Helper()
		out, err := op.Command(args...).CombinedOutput()
		exit, failed := 0, new(exec.ExitError)
		if errors.As(err, &failed) {
			exit = failed.ExitCode()
		}
		if exit != status || !strings.Contains(string(out), want) || strings.Contains(string(out), "secret-value") {
			t.Errorf("%s: status %d\n%s", strings.Join(args, " "), exit, out)
		}
	}
	const problem = "it is left out: the call with --config failed: exit status 1"
	asks(op, 1, "new: "+problem, "status")
	asks(op, 0, "new: broken\n- "+problem+"; it is called again with --config in ", "why", "new")
	asks(op, 1, `hook "new" is left out: the call with --config failed`, "hook", "config", "new")
	if ready := op.Page("/readyz"); !strings.HasPrefix(ready, "ok\n") || !strings.Contains(ready, `hook "new": `+problem) {
		t.Errorf("/readyz says %s", ready)
	}
	if metrics := op.Page("/metrics"); !strings.Contains(metrics, `shell_operator_troubles{hook="new",kind="config"} 1`) {
		t.Error("no metric of the trouble")
	}

	d.put("keeps", fails, 0o755)
	op.UntilLog("A hook is broken, its previous version stays active", "hook", "keeps")
	create("b", "keeps")
	until(op, t, "keeps v1: keeps Synchronization a", "goes v1: goes Synchronization other", "keeps v1: keeps Added b")
	asks(op, 0, "its previous version stays active: the call with --config failed: exit status 1", "why", "keeps")
	op.Signal(syscall.SIGTERM)
	op.Wait()

	d.remove("goes")
	op = start(t, cluster, d, flags...)
	op.UntilLog("An orphaned finalizer is removed", "finalizer", "example.com/goes")
	const finalizers = "jsonpath={.metadata.finalizers}"
	if got := cluster.Kubectl(t, "-n", d.ns, "get", "configmap", "a", "-o", finalizers); got != `["example.com/keeps"]` {
		t.Errorf("the object has the finalizers %s", got)
	}
	d.hook("keeps", "v2", finalizing("keeps"))
	until(op, t, "keeps v2: keeps Synchronization a b")
	asks(op, 1, "new: "+problem, "status")
	d.hook("new", "v1", "{configVersion: v1, onStartup: 1}")
	until(op, t, "keeps v2: keeps Synchronization a b", "new v1: onStartup")
	asks(op, 0, "healthy", "status")
}
