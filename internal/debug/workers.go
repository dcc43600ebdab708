package debug

import (
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/worker"
)

// workerReader reads the workers of hooks.
type workerReader interface {
	// Workers returns the workers of a hook with settings.worker. They are not used if the operator starts a process for each run.
	Workers(h *hook.Hook) (state worker.State, used bool)
}

// WorkersTopic reports the workers of hooks.
func WorkersTopic(hooks *Hooks, workers workerReader) Topic {
	return Topic{
		Reasons: func(h *hook.Hook, _ *Moment) []Reason {
			if h.Settings.Worker == nil {
				return nil
			}
			return servedBy(workers.Workers(h))
		},
		Troubles: func() (all []Trouble) {
			for _, h := range hooks.Active() {
				if h.Settings.Worker == nil {
					continue
				}
				state, _ := workers.Workers(h)
				for _, p := range state.Problems {
					text, hint := describeProblem(p, time.Now())
					all = append(all, Trouble{Kind: InWorker, Hooks: []string{h.Name}, Subject: h.Name, Problem: text, Hint: hint})
				}
			}
			return all
		},
	}
}

// servedBy covers the workers of a hook; their problems are troubles.
func servedBy(state worker.State, used bool) []Reason {
	text := tallyWorkers(state.Workers)
	switch {
	case !used:
		text = "settings.worker has no effect: each run is a process of its own, because --workers is false"
	case text == "" && len(state.Problems) > 0:
		return nil
	case text == "":
		text = "no worker is there: the next run starts one"
	}
	return []Reason{{InWorker, false, text, ""}}
}

func describeProblem(p worker.Problem, now time.Time) (text, hint string) {
	of := "of its worker"
	if p.Client {
		of += " for requests"
	}
	next, have := "the next one comes with a run", "have"
	switch {
	case !p.Retry.IsZero():
		next = "the next one is in " + short(max(0, p.Retry.Sub(now)))
	case p.Client: // one is always there, or being started
		next = "the next one has begun"
	}
	if p.Failed == 1 {
		have = "has"
	}
	return fmt.Sprintf("%s %s %s failed, %s: %s", Count(p.Failed, "start"), of, have, next, OneLine(p.Cause)), "the log has what it printed"
}

// tallyWorkers counts workers by their states; empty without any.
func tallyWorkers(workers []worker.Status) string {
	if len(workers) == 0 {
		return ""
	}
	states := map[string]int{}
	for _, w := range workers {
		states[w.Phase]++
	}
	return fmt.Sprintf("workers: %d%s", len(workers), tallies(states))
}
