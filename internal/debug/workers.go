package debug

import (
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/worker"
)

// workerReader reads the workers of hooks.
type workerReader interface {
	// Workers returns those of a hook with settings.worker. They are not used if the operator starts a process for each run.
	Workers(h *hook.Hook) (state worker.State, used bool)
}

// WorkersTopic reports the workers of hooks.
func WorkersTopic(hooks *Hooks, workers workerReader) Topic {
	return Topic{
		Reasons: func(h *hook.Hook, at *Moment) []Reason {
			if h.Settings.Worker == nil {
				return nil
			}
			state, used := workers.Workers(h)
			return servedBy(state, used, at.Time)
		},
		Troubles: func() (all []Trouble) {
			now := time.Now()
			for _, h := range hooks.Active() {
				if h.Settings.Worker == nil {
					continue
				}
				state, _ := workers.Workers(h)
				for _, p := range state.Problems {
					text, hint := describeProblem(p, now)
					all = append(all, Trouble{Kind: InWorker, Hooks: []string{h.Name}, Subject: h.Name, Problem: text, Hint: hint})
				}
			}
			return all
		},
	}
}

// workerStatus is a worker of a hook.
type workerStatus struct {
	Worker int    `json:"worker"`
	State  string `json:"state"`
	// PID is missing until the process has been started.
	PID int `json:"pid,omitempty"`
	// Requests reports that it serves reviews and HTTP requests, which have workers of their own.
	Requests bool      `json:"requests,omitempty"`
	Started  time.Time `json:"started"`
	// Runs are those that it has served.
	Runs int `json:"runs"`
}

func workersOf(state worker.State) (all []workerStatus) {
	for _, w := range state.Workers {
		all = append(all, workerStatus{w.Number, w.Phase, w.PID, w.Client, w.Started, w.Runs})
	}
	return all
}

// text is the worker on one line.
func (w *workerStatus) text(now time.Time) string {
	text := fmt.Sprintf("worker %d", w.Worker)
	if w.Requests {
		text += ", for requests"
	}
	text += ": " + w.State + ", "
	if w.PID != 0 {
		text += fmt.Sprintf("pid %d, ", w.PID)
	}
	return text + fmt.Sprintf("started %s ago, %s", ago(now.Sub(w.Started)), count(w.Runs, "run"))
}

// shownWorkers limits the workers of a hook in why.
const shownWorkers = 5

// servedBy covers the workers of a hook; their problems are troubles.
func servedBy(state worker.State, used bool, now time.Time) (reasons []Reason) {
	if !used {
		return []Reason{{InWorker, false, "settings.worker has no effect: each run is a process of its own, because --workers is false", ""}}
	}
	for i, w := range workersOf(state) {
		if i == shownWorkers {
			reasons = append(reasons, Reason{InWorker, false, count(len(state.Workers)-i, "more worker"), ""})
			break
		}
		reasons = append(reasons, Reason{InWorker, false, w.text(now), ""})
	}
	if len(state.Workers)+len(state.Problems) == 0 {
		reasons = append(reasons, Reason{InWorker, false, "no worker is there: the next run starts one", ""})
	}
	return reasons
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
	return fmt.Sprintf("%s %s %s failed, %s: %s", count(p.Failed, "start"), of, have, next, OneLine(p.Cause)), "the log has what it printed"
}

// tallyWorkers is the line about all workers; empty without any.
func tallyWorkers(hooks []HookStatus) string {
	states, n := map[string]int{}, 0
	for _, h := range hooks {
		for _, w := range h.Workers {
			states[w.State]++
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("workers: %d%s\n", n, tallies(states))
}
