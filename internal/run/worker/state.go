package worker

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// State is what a hook has of workers.
type State struct {
	// Workers are in the order of their starts.
	Workers []Status
	// Problems are at most one of those for queues, and one of those for clients.
	Problems []Problem
}

// Status is a worker.
type Status struct {
	Number int `json:"worker"`
	// Phase is starting, ready, serving or ending.
	Phase string `json:"state"`
	// PID is 0 until its process has been started.
	PID int `json:"pid,omitempty"`
	// Client reports that clients wait for its runs: it serves reviews and HTTP requests.
	Client  bool      `json:"requests,omitempty"`
	Started time.Time `json:"started"`
	// Runs counts the runs that it has served.
	Runs int `json:"runs"`
}

// Problem is why runs have no worker.
type Problem struct {
	Client bool
	// Failed is the number of starts that have failed in a row.
	Failed int
	// Retry is when the next start comes. It is zero if that is with the next run, or for clients if the start has begun.
	Retry time.Time
	// Cause is why the last start has failed, without output of the hook.
	Cause string
}

// publicCause describes why a worker has ended, without what it printed and sent.
func publicCause(err error) string {
	var broken *process.WorkerError
	var unstarted *process.StartError
	switch {
	case errors.As(err, &broken):
		return broken.Problem
	case errors.As(err, &unstarted):
		return unstarted.Reason()
	}
	_, cause, found := strings.Cut(err.Error(), " FAILED: ")
	if !found {
		return err.Error()
	}
	return cause
}

// State returns the workers of a hook.
func (p *Pool) State(hook string) (s State) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, client := range []bool{false, true} {
		for k, c := range p.groups {
			if k.hook != hook || k.client != client {
				continue
			}
			for _, m := range c.members {
				w := Status{Number: m.number, Phase: m.state.String(), Client: client, Started: m.began, Runs: m.runs}
				if m.process != nil {
					w.PID = m.process.PID()
				}
				s.Workers = append(s.Workers, w)
			}
			if c.cause == "" || c.retired {
				continue
			}
			problem := Problem{Client: client, Failed: c.failures, Cause: c.cause}
			if c.always && c.retryAt.After(now) {
				problem.Retry = c.retryAt
			}
			s.Problems = append(s.Problems, problem)
		}
	}
	slices.SortFunc(s.Workers, func(a, b Status) int { return cmp.Compare(a.Number, b.Number) })
	return s
}
