package run

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// noting is a worker that notes its own home and each run's, whether a file of the operator is as it was, and how large the contexts are.
// A run spoils the file.
const noting = `#!/usr/bin/env bash
prepared="$(cat "$FILE") $HOME"
echo ready >&3
while :; do
  vars=()
  while IFS= read -r -d '' v <&3; do
    [[ -n $v ]] || break
    vars+=("$v")
  done
  ((${#vars[@]})) || exit 0
  (
    export "${vars[@]}"
    echo "$prepared $(cat "$FILE") $HOME $(wc -c <"$BINDING_CONTEXT_PATH")" >>"$NOTES"
    echo spoilt >"$FILE"
  )
  echo "${vars[0]#HOOK_RUN=} $?" >&3
done
`

// What holds for a process holds for a worker: the hook has a home of its own, a protected file, such as one of the shell library, is
// restored before a start, and contexts that exceed the bound go to several runs.
func TestRunsOfWorkers(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Homes: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	protected := filepath.Join(files.Dir(), "library")
	notes, path := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(), "hook.sh")
	for name, text := range map[string]string{protected: "library\n", path: noting} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Protect(); err != nil {
		t.Fatal(err)
	}
	pool := worker.New(worker.Options{
		Executor: process.New(process.Options{TermDelay: time.Minute}), ReadyTimeout: time.Minute, Log: slog.New(slog.DiscardHandler),
		Prepare: func(in process.Invocation) error { _, err := files.Prepare(in.Hook); return err },
	})
	t.Cleanup(pool.Close)
	h := &hook.Hook{Name: "hook.sh", Path: path, Settings: hook.Settings{Worker: &hook.Worker{MaxRuns: 2}},
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}}}}
	rec := &recorder{}
	r := New(Options{
		Executor: pool, Workers: pool, Snapshots: fewObjects{}, Effects: noEffects{}, Workspace: files, Log: slog.New(slog.DiscardHandler),
		Env: func(*hook.Hook) []string {
			return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "FILE=" + protected, "NOTES=" + notes}
		}, MaxContextBytes: 3000,
		Companions: []Companion{rec},
	})
	r.Add([]*hook.Hook{h})
	const events, size = 8, 1000 // two fit
	var task *Task
	for i := range events {
		next := r.Task(object(h, 0, event.Added, fmt.Sprint("pod-", i), size))
		if task == nil {
			task = next
		} else if !task.Absorb(next) {
			t.Fatal("the events are not merged")
		}
	}
	drain(t, task)
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != events/2 || len(rec.ended) != events/2 {
		t.Fatalf("%d runs, %d reports\n%s", len(lines), len(rec.ended), text)
	}
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) != 5 || words[0] != "library" || words[2] != "library" {
			t.Errorf("run %d has the file %q", i, line)
			continue
		}
		if home := words[1]; home != words[3] || !strings.HasPrefix(home, files.Dir()) {
			t.Errorf("run %d has the home %s, its worker %s", i, words[3], home)
		}
		if words[4] >= "3000" || len(words[4]) != 4 {
			t.Errorf("run %d has %s bytes of contexts", i, words[4])
		}
	}
	workers := make([]int, len(rec.ended))
	for i, report := range rec.ended {
		s := report.Served
		workers[i] = s.Worker
	}
	if !slices.Equal(workers, []int{1, 1, 2, 2}) {
		t.Errorf("the runs had the workers %v", workers)
	}
}
