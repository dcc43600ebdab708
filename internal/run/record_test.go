package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Exit contains no text that a hook has written.
func TestExit(t *testing.T) {
	ran := process.Usage{Wall: time.Second}
	for _, test := range []struct {
		report Report
		want   string
	}{
		{Report{Usage: ran}, "exit status 0"},
		{Report{Usage: ran, Err: &process.ExitError{Status: "exit status 3", Stderr: "secret"}}, "exit status 3"},
		{Report{Usage: ran, Err: errors.Join(&process.ExitError{Status: "signal: killed", Stderr: "secret"}, errors.New("secret"))},
			"signal: killed"},
		{Report{Usage: ran, Err: &process.TimeoutError{Limit: time.Minute}}, "ended after the time limit of 1m0s"},
		{Report{Err: &process.StartError{Err: errors.New("secret")}}, "could not be started"},
		{Report{Err: errors.New("secret")}, "was not started"},
		{Report{Usage: ran, Err: fmt.Errorf("secret")}, "exit status 0, but its output was not applied"},
	} {
		if got := test.report.Exit(); got != test.want {
			t.Errorf("%v: %q, want %q", test.report.Err, got, test.want)
		}
	}
}

func TestWhyInWords(t *testing.T) {
	one := 1
	h := &hook.Hook{
		Name: "h", OnStartup: &one,
		Schedules:   []hook.Schedule{{Binding: hook.Binding{Name: "night"}, Crontab: "0 3 * * *"}},
		Kubernetes:  []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}}},
		Validating:  []hook.Admission{{Binding: hook.Binding{Name: "check"}}},
		Conversions: []hook.Conversion{{CRDName: "crontabs.example.com"}},
	}
	for _, test := range []struct {
		ev   event.Event
		want string
	}{
		{event.Event{Type: event.Startup}, "onStartup"},
		{event.Event{Type: event.Tick}, "night (0 3 * * *)"},
		{event.Event{Type: event.Synchronization}, "Synchronization of pods"},
		{event.Event{Type: event.Change, Watch: event.Added, Object: event.Object{Namespace: "default", Name: "web-1"}},
			"Added default/web-1 (pods)"},
		{event.Event{Type: event.Change, Watch: event.Deleted, Object: event.Object{Name: "node-1"}}, "Deleted node-1 (pods)"},
		{event.Event{Type: event.Validating}, "review by check"},
		{event.Event{Type: event.Conversion}, "conversion of crontabs.example.com"},
	} {
		test.ev.Hook = h
		if got := DescribeEvent(&test.ev); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// printer is a hook that prints a line and fails.
type printer struct{}

func (printer) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	in.Stdout([]byte("out"))
	in.Stderr([]byte("err"))
	return process.Result{Usage: process.Usage{Wall: time.Second}}, &process.ExitError{Hook: in.Hook, Status: "exit status 1", Stderr: "err"}
}

// recorder stores the runs that it takes part in, and the last report.
type recorder struct {
	begun  []string
	lines  []string
	ended  []Report
	report Report
	pid    int
	// settled counts the calls of Settle; outcome is the last one of Done.
	settled int
	outcome error
}

func (*recorder) Joins(*hook.Hook, bool) bool                     { return true }
func (r *recorder) Settle(context.Context, *Attempt, error) error { r.settled++; return nil }

func (r *recorder) Begin(ctx context.Context, a *Attempt) context.Context {
	if t := a.Task; t.Len() > 0 {
		a.Record = r
		r.begun = append(r.begun, fmt.Sprint("attempt ", a.Attempt, " of ", t.ID(), " in ", t.Queue(), ": ", t.Len(), t.Describe()))
	}
	return ctx
}

func (r *recorder) Done(_ context.Context, a *Attempt, outcome error) {
	r.outcome = outcome
	if r.report = a.Report; a.Task.Len() > 0 {
		r.ended = append(r.ended, a.Report)
	}
}

func (r *recorder) Output(line []byte) { r.lines = append(r.lines, string(line)) }
func (r *recorder) Started(pid int)    { r.pid = pid }
func (r *recorder) Processed()         {}
func (r *recorder) Tail() string       { return strings.Join(r.lines, "\n") }

func TestRunsAreRecorded(t *testing.T) {
	var log strings.Builder
	rec := &recorder{}
	h := hookOf("--")
	r := New(Options{Executor: printer{}, Workspace: openWorkspace(t), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Companions: []Companion{rec}})
	r.Add([]*hook.Hook{h})
	task := r.Task(change(h, 0))
	for range 2 {
		task.Absorb(r.Task(change(h, 1)))
	}
	for range 2 {
		if err := task.Run(t.Context()); err == nil {
			t.Fatal("the run has not failed")
		}
	}
	if len(rec.begun) != 2 || rec.begun[1] != "attempt 2 of 1 in main: 3 [Added  (a) Added  (b) Added  (b)]" {
		t.Errorf("begun %q", rec.begun)
	}
	if !slices.Equal(rec.lines, []string{"out", "err", "out", "err"}) || rec.report.Exit() != "exit status 1" || rec.report.Interrupted {
		t.Errorf("lines %q, report %+v", rec.lines, rec.report)
	}
	// Each event can be found in the record of its run.
	if !strings.Contains(log.String(),
		`msg="Execute hook" hook=h binding=a event=kubernetes queue=main task=HookRun task.id=1 event.id=1,2,3`) {
		t.Errorf("the log: %s", log.String())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := task.Run(ended); err == nil || !rec.report.Interrupted {
		t.Errorf("at the shutdown: %v, report %+v", err, rec.report)
	}
}

// panics is a world in which something panics: the process, the snapshot or an effect.
type panics struct {
	Snapshots
	Effects
	where string
}

func (p panics) at(where string) {
	if p.where == where {
		panic("at the " + where)
	}
}

func (p panics) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	p.at("process")
	return process.Result{Usage: process.Usage{Wall: 1}}, os.WriteFile(process.Variable(in.Vars, "METRICS_PATH"), []byte("{}"), 0o600)
}
func (p panics) Snapshot(*hook.Hook, int) event.Snapshot  { p.at("snapshot"); return event.NoObjects{} }
func (panics) Synchronize(*hook.Hook, int) event.Snapshot { return event.NoObjects{} }
func (panics) Unlock(*hook.Hook, int)                     {}
func (p panics) Apply(context.Context, *slog.Logger, *hook.Hook, Outputs, *Turn, Identify) ([]Change, error) {
	p.at("effect")
	return nil, nil
}

// A panic anywhere in a run is that run's failure: recorded, counted and logged with its stack. The next attempt succeeds.
func TestPanics(t *testing.T) {
	for _, where := range []string{"snapshot", "process", "effect"} {
		t.Run(where, func(t *testing.T) {
			var log strings.Builder
			rec := &recorder{}
			p := &panics{where: where}
			h := hookOf("-")
			h.Kubernetes[0].Includes = []int{0}
			files := openWorkspace(t)
			r := New(Options{Executor: p, Snapshots: p, Effects: p, Workspace: files, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Companions: []Companion{rec}})
			r.Add([]*hook.Hook{h})
			task := r.Task(change(h, 0))
			const want = "h FAILED: the operator panicked, which is a bug in it: the log has the stack"
			if err := task.Run(t.Context()); err == nil || err.Error() != want {
				t.Errorf("got %v", err)
			}
			if len(rec.ended) != 1 || rec.report.Err == nil {
				t.Errorf("recorded %+v", rec.ended)
			}
			if text := log.String(); !strings.Contains(text, "panic recovered in TaskQueue Start") || !strings.Contains(text, "at the "+where) ||
				!strings.Contains(text, "record_test.go") {
				t.Errorf("the log is %s", text)
			}
			if left, err := filepath.Glob(filepath.Join(files.Dir(), "runs", "hook-*")); err != nil || len(left) > 0 {
				t.Errorf("left are %q, %v", left, err)
			}
			p.where = ""
			if err := task.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Synchronization without events unlocks its binding, but there is no run to count.
func TestOnlyRunsAreObserved(t *testing.T) {
	h := hookOf("--")
	h.Kubernetes[0].Initial = hook.InitialNone
	runs, rec := 0, &recorder{}
	r := New(Options{
		Executor:  executor(func(process.Invocation) error { runs++; return nil }),
		Snapshots: panics{}, Effects: panics{}, Workspace: openWorkspace(t), Log: slog.New(slog.DiscardHandler),
		Companions: []Companion{rec},
	})
	r.Add([]*hook.Hook{h})
	for index := range h.Kubernetes {
		task := r.Task(event.Event{Type: event.Synchronization, Hook: h, Index: index})
		if err := task.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(rec.ended) != 1 || rec.ended[0].Binding != "b" || len(rec.begun) != 1 || runs != 1 {
		t.Errorf("observed are runs %+v, there were %d", rec.ended, runs)
	}
}

func TestEventIDsAreBounded(t *testing.T) {
	h := hookOf("-")
	r := New(Options{})
	task := r.Task(change(h, 0))
	for range 1000 {
		task.Absorb(r.Task(change(h, 0)))
	}
	if n := len(strings.Split(task.eventIDs(), ",")); n != maxIDs+1 {
		t.Errorf("%d ids", n)
	}
}
