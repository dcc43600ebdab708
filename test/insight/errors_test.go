package insight

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Hooks that fail: in sh, with CONFIG, by an interpreter, and in Python, where BEFORE comes before an exception.
const (
	failingShell = `#!INTERPRETER
if [ "$1" = --config ]; then echo 'CONFIG'; exit; fi
printf 'line 1\nline 2\nline 3\nline 4\n  no answer\ntry later\n' >&2
exit 3
`
	failingPython = `#!/usr/bin/env python3
from shell_operator_hook import Hook, run
hook = Hook('''CONFIG''')
@hook.otherwise
def handle(context):
    BEFORE
    raise RuntimeError("source broken")
hook.run()
`
)

// The error of a failed run in each view, by the form of the hook: one line of what the hook says, and one record beside its output.
func TestErrorsByHookAndView(t *testing.T) {
	t.Parallel()
	cluster := testenv.Either(t)
	namespace, dir, shell := cluster.Namespace(t), t.TempDir(), filepath.Join(t.TempDir(), "sh")
	if err := os.Symlink("/bin/sh", shell); err != nil {
		t.Fatal(err)
	}
	python := strings.ReplaceAll(failingPython, "BEFORE", "pass")
	forms := []struct {
		hook, text, settings string
		// error is in the views of people, public in those that more can read.
		error, public string
	}{
		{"a-sh", strings.ReplaceAll(failingShell, "INTERPRETER", "/bin/sh"), "", "… line 2 line 3 line 4   no answer try later",
			"exit status 3"},
		{"b-python", python, "", "RuntimeError: source broken", "exit status 1"},
		{"c-worker", python, ", worker: true", "RuntimeError: source broken", "exit status 1"},
		{"d-message", strings.ReplaceAll(failingPython, "BEFORE", `run.message("no answer from broken")`), "", "no answer from broken",
			"no answer from broken"},
		{"e-exec", strings.ReplaceAll(failingShell, "INTERPRETER", shell), "", "cmd start: the interpreter", "could not be started"},
	}
	for _, form := range forms {
		config := `{configVersion: v1, settings: {retry: {limit: 1}` + form.settings + `}, kubernetes: [{kind: ConfigMap, queue: ` + form.hook +
			`, executeHookOnSynchronization: false, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [` + namespace + `]}}}]}`
		text := strings.ReplaceAll(form.text, "CONFIG", config)
		testenv.Script(t, dir, form.hook, text)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	for _, form := range forms {
		op.UntilLog("Kubernetes bindings for hook are enabled successfully", "hook", form.hook)
	}
	if err := os.Remove(shell); err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "create", "configmap", "menu", "-n", namespace)
	for _, form := range forms {
		t.Run(form.hook, func(t *testing.T) {
			ended := op.UntilLog("Hook failed. No attempt is left, its contexts are parked.", "hook", form.hook)
			if text := strings.ReplaceAll(ended.Fields["error"], "\n", " "); !strings.HasPrefix(text, form.hook+" FAILED: "+form.error) {
				t.Errorf("the record has the error %q", text)
			}
			errors, traces := 0, 0
			for _, r := range op.Records() {
				switch {
				case r.Fields["hook"] != form.hook:
				case r.Fields["level"] == "error":
					errors++
				case strings.HasPrefix(r.Fields["msg"], "Traceback"):
					traces++
					if text := r.Fields["msg"]; strings.Count(text, "\n  File") > 2 || !strings.HasSuffix(text, "\nRuntimeError: source broken") {
						t.Errorf("the traceback is %s", text)
					}
				}
			}
			if isPython := strings.Contains(form.text, "raise"); errors != 1 || (traces == 1) != isPython {
				t.Errorf("%d errors and %d tracebacks in the log", errors, traces)
			}
			for _, view := range [][]string{{"why", form.hook}, {"parked"}, {"runs", form.hook}, {"runs", "show", ended.Fields["task.id"]}} {
				text := op.Ask(view...)
				if view[0] == "runs" && view[1] == "show" { // all lines
					text = strings.ReplaceAll(text, "\n  ", " ")
				}
				if !strings.Contains(text, form.error) {
					t.Errorf("%s lacks %q:\n%s", view, form.error, text)
				}
			}
			out, _ := exec.Command(testenv.Binary(t), "status", "--debug-unix-socket", op.Socket).CombinedOutput()
			if text := string(out); !strings.Contains(text, form.hook+", ") ||
				!strings.Contains(text, form.public) {
				t.Errorf("status lacks %q:\n%s", form.public, text)
			}
			public := strings.Replace(form.public, "could not be started", "it cannot be started: the interpreter", 1)
			for late := time.Now().Add(test.Patience); ; time.Sleep(100 * time.Millisecond) {
				notes := cluster.Kubectl(t, "-n", namespace, "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}")
				if strings.Contains(notes, `Hook "`+form.hook+`" has no attempt left after 1 attempt, its contexts are parked: `+public) {
					break
				}
				if time.Now().After(late) {
					t.Fatalf("the Events are %s, want one with %q", notes, public)
				}
			}
		})
	}
}
