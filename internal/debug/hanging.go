package debug

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// runStopper ends runs.
type runStopper interface {
	// StopRun ends the process of a run for a queue; false if no process of it runs. It returns why no other attempt follows, or about
	// how long after its end that begins.
	StopRun(id string, dryRun bool) (last string, delay time.Duration, ok bool)
}

// A run hangs that takes longer than hanging, and hangingFactor times as long as the longest of the last successful runs of its hook, while
// tasks wait behind it.
const (
	hanging       = time.Minute
	hangingFactor = 3
)

// troubles are runs that hang, and runs of hooks that a reload has removed.
func (t *runTopic) troubles() (all []Trouble) {
	runs, active := t.runs.Runs(""), t.hooks.Active()
	longest := map[string]history.Duration{}
	for i := range runs {
		if r := &runs[i]; r.Status == history.Succeeded {
			longest[r.Hook] = max(longest[r.Hook], r.Took)
		}
	}
	for i := range slices.Backward(runs) {
		r := &runs[i]
		if r.Status != history.Running || r.Queue == "" {
			continue
		}
		removed := active != nil && !slices.ContainsFunc(active, func(h *hook.Hook) bool { return h.Name == r.Hook })
		waiting, usual := t.behind(r), longest[r.Hook]
		hangs := time.Duration(r.Took) > hanging && r.Took > hangingFactor*usual && waiting > 0
		if !hangs && !removed {
			continue
		}
		x := Trouble{Kind: ByItsOwnRun, Hooks: []string{r.Hook}, Subject: r.Hook, Run: r.ID, Since: r.Started, Notice: !hangs,
			Hint: "shell-operator runs stop " + r.ID}
		x.Problem = fmt.Sprintf("run %s (%s) has been running for %s", r.ID, OneLine(r.Reason()), short(time.Duration(r.Took)))
		switch {
		case r.Applies():
			x.Problem += ", its process has ended, the operator applies its output"
			x.Hint = "shell-operator runs show " + r.ID
		case r.PID > 0:
			x.Problem += fmt.Sprintf(", pid %d", r.PID)
		}
		if removed {
			x.Problem += ", its hook was removed by a reload"
		}
		if waiting > 0 {
			x.Problem += fmt.Sprintf("; behind it in queue %q: %s", r.Queue, Count(waiting, "task"))
		}
		if hangs && usual > 0 {
			x.Problem += fmt.Sprintf("; the longest of its last successful runs took %s", usual)
		}
		all = append(all, x)
	}
	return all
}

// behind counts the tasks that wait for the end of a run: those in its lane, or all of a keyed queue without a free place.
func (t *runTopic) behind(r *history.Run) int {
	if q, ok := t.queues.Queue(r.Queue, "", 0); ok && q.Keyed && q.Running >= q.Concurrency {
		return q.Tasks - q.Running
	}
	lane, _ := t.queues.Lane(r.Queue, r.Key)
	return max(0, lane.Tasks-1)
}

func (t *runTopic) stop(r request) (acted, error) {
	run, ok := t.runs.Run(r.name)
	switch {
	case !ok:
		return acted{}, unknownRun(r.name)
	case run.Status != history.Running:
		return done(0, "run %s has ended: %s", run.ID, run.Summary()), nil
	case run.Queue == "":
		return acted{}, refuse(http.StatusConflict, "run %s answers a request: it is not stopped", run.ID).
			hint("it ends with the time limit of the request; a review that was stopped could be admitted by failurePolicy: Ignore")
	}
	last, delay, ok := t.stopper.StopRun(run.ID, r.dryRun)
	if !ok {
		return acted{}, refuse(http.StatusConflict, "run %s has no process now: the operator prepares it or applies its output", run.ID).
			hint("shell-operator runs show %s", run.ID)
	}
	next := last
	if last == "" {
		lane := run.Queue
		if run.Key != "" {
			lane += " --key " + run.Key
		}
		next = fmt.Sprintf("the next attempt begins about %s after its end: shell-operator queue skip %s drops the task then, "+
			"shell-operator hook pause %s lets no other run of the hook begin", short(delay), lane, run.Hook)
	}
	return done(1, "run %s of hook %q gets SIGTERM, and SIGKILL if it does not end, as at its time limit; %s", run.ID, run.Hook, next), nil
}
