// Package authors tests the tasks with which we measure whether an assistant can write hooks from the program alone: README.md.
package authors

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// check runs the script of that name, and returns its output.
func check(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("./check", args...)
	cmd.Env = append(os.Environ(), "SHELL_OPERATOR="+testenv.Binary(t), "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestReferenceSolutionsPass(t *testing.T) {
	out, err := check(t, "--solutions")
	if err != nil || !strings.Contains(out, " in 24 files: 0 failed") || strings.Count(out, " in 1 file: 0 failed") != 2 {
		t.Errorf("check --solutions: %v\n%s", err, out)
	}
}

// Each task has a case that a hook without effect fails.
func TestHookWithoutEffectFails(t *testing.T) {
	dir := t.TempDir()
	hook := "#!/bin/sh\n[ \"$*\" != --config ] || echo '{configVersion: v1, onStartup: 1, kubernetes: [{kind: Pod}]}'\n"
	if err := os.MkdirAll(filepath.Join(dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hooks", "hook.sh"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	out, _ := check(t, dir)
	failed := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^FAIL ([0-9]{2}-[a-z-]+)/`).FindAllStringSubmatch(out, -1) {
		failed[match[1]] = true
	}
	tasks, err := filepath.Glob("tasks/*")
	if err != nil || len(tasks) != 26 || len(failed) != len(tasks) {
		t.Errorf("%d of %d tasks reject it (%v): %v\n%s", len(failed), len(tasks), err, failed, out)
	}
}

// Plausible wrong solutions fail: files that take the place of those of the reference solution, or a diff to it.
func TestWrongSolutionsFail(t *testing.T) {
	wrong, err := filepath.Glob("tasks/*/wrong/*")
	if err != nil || len(wrong) < 15 {
		t.Fatal(wrong, err)
	}
	for _, difference := range wrong {
		task, attempt := filepath.Dir(filepath.Dir(difference)), t.TempDir()
		// cp, because CopyFS overwrites nothing.
		change := exec.Command("cp", "-R", difference+"/.", attempt)
		if filepath.Ext(difference) == ".diff" {
			path, err := filepath.Abs(difference)
			if err != nil {
				t.Fatal(err)
			}
			change = exec.Command("git", "apply", path)
			change.Dir, change.Env = attempt, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(attempt))
		}
		if out, err := exec.Command("cp", "-R", task+"/solution/.", attempt).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		if out, err := change.CombinedOutput(); err != nil {
			t.Fatal(difference, string(out))
		}
		if out, err := check(t, attempt, filepath.Base(task)); err == nil || !strings.Contains(out, "FAIL "+filepath.Base(task)) {
			t.Errorf("%s passes: %v\n%s", difference, err, out)
		}
	}
}

// TestAttemptsPass: the last attempt at each task passes its hidden tests.
func TestAttemptsPass(t *testing.T) {
	if !test.Long() {
		t.Skip("the reference solutions pass: run 'make long'")
	}
	attempts, err := filepath.Glob("attempts/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, dir := range attempts { // in their order
		task, _, _ := strings.Cut(filepath.Base(dir), "-")
		last[task] = dir
	}
	if len(last) != 20 { // the later tasks are new
		t.Errorf("%d tasks have attempts", len(last))
	}
	for task, dir := range last {
		if out, err := check(t, dir, task); err != nil {
			t.Errorf("%s: %v\n%s", dir, err, out)
		}
	}
}
