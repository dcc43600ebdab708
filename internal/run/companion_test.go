package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// panicking is a Companion that panics in one of its methods.
type panicking string

func (panicking) Joins(*hook.Hook, bool) bool { return true }
func (panicking) Await(*Task) error           { return nil }
func (p panicking) at(where panicking) {
	if p == where {
		panic(where)
	}
}

func (p panicking) Begin(ctx context.Context, _ *Attempt) context.Context { p.at("Begin"); return ctx }
func (p panicking) Settle(_ context.Context, _ *Attempt, _ error) error   { p.at("Settle"); return nil }
func (p panicking) Done(_ context.Context, _ *Attempt, _ error)           { p.at("Done") }
func (p *panicking) Unlock(*hook.Hook, int)                               { *p += " unlocked" }
func (p *panicking) Snapshot(h *hook.Hook, index int) event.Snapshot      { return event.NoObjects{} }
func (p *panicking) Synchronize(h *hook.Hook, index int) event.Snapshot   { return event.NoObjects{} }

// A companion that panics fails the run. The others take part nevertheless, and files, places and turns are released; a binding is unlocked
// only if it allows failure.
func TestPanicOfACompanion(t *testing.T) {
	for _, where := range []panicking{"Begin", "Settle", "Done"} {
		for _, allowed := range []bool{false, true} {
			h := hookOf("-")
			h.Kubernetes[0].AllowFailure = allowed
			before, after, files, world := &recorder{}, &recorder{}, openWorkspace(t), new(panicking)
			r := New(Options{Executor: executor(func(in process.Invocation) error {
				return os.Truncate(process.Variable(in.Vars, "KUBERNETES_PATCH_PATH"), 9<<20)
			}), Workspace: files, Log: slog.New(slog.DiscardHandler), Snapshots: world, Effects: noEffects{},
				Companions: []Companion{before, where, after}})
			r.Add([]*hook.Hook{h})
			err := r.Task(event.Event{Type: event.Synchronization, Hook: h}).Run(t.Context())
			if left, _ := filepath.Glob(filepath.Join(files.Dir(), "runs", "hook-*")); (err == nil) != allowed || len(left) > 0 {
				t.Errorf("%s: error %v, files %q", where, err, left)
			}
			for _, c := range []*recorder{before, after} {
				if len(c.begun) != 1 || c.settled != 1 || len(c.ended) != 1 || c == after && c.outcome == nil {
					t.Errorf("%s: %d %d %d %v", where, len(c.begun), c.settled, len(c.ended), c.outcome)
				}
			}
			if got := fmt.Sprint(len(r.large), len(r.turns.of), *world == " unlocked"); got != fmt.Sprint(0, 0, allowed) {
				t.Errorf("%s: places, turns, unlocked: %s", where, got)
			}
		}
	}
}
