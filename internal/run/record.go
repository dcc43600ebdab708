package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// Outputs is the content of the files that a hook wrote.
type Outputs = workspace.Outputs

// Begun is what is known of a run when its process is about to start.
type Begun struct {
	Hook *hook.Hook
	// Task is the task's id, Attempt counts its runs from 1.
	Task    string
	Attempt int
	// Queue and Event name the queue, or nothing, and the type of the first event; Binding that event's binding.
	Queue, Binding, Event string
	// Why says what the hook is told of, the first few of all Events.
	Why    []string
	Events int
	Waited time.Duration
}

// Record takes what happens in one run. Its methods must return at once.
type Record interface {
	Output(line []byte)
	End(Report)
}

type noRecord struct{}

func (noRecord) Output([]byte) {}
func (noRecord) End(Report)    {}

// Report is what is known of a run that has ended.
type Report struct {
	Hook           *hook.Hook
	Binding, Queue string
	Waited         time.Duration
	// Attempt counts the runs of the task, from 1.
	Attempt int
	// Merged is how many other tasks went into the run.
	Merged int
	Wall   time.Duration
	Usage  process.Usage
	// Changes are those of objects that the hook asked for.
	Changes []Change
	// Response is what the client of a review gets: the verdict and its message.
	Response string
	// Err is why the run failed; Allowed tells that it may.
	Err     error
	Allowed bool
	// Interrupted tells that the run was ended together with the operator.
	Interrupted bool
}

// Change names a change of an object.
type Change struct{ Operation, Kind, Namespace, Name string }

// Exit says how the process ended: "exit status 1", "signal: killed"; or what else ended the run. There is nothing in
// it that a hook has written.
func (r *Report) Exit() string {
	var exit *process.ExitError
	var timeout *process.TimeoutError
	var start *process.StartError
	switch {
	case errors.As(r.Err, &exit):
		return exit.Status
	case errors.As(r.Err, &timeout):
		return fmt.Sprintf("ended after the time limit of %s", timeout.Limit)
	case errors.As(r.Err, &start):
		return "could not be started"
	case errors.As(r.Err, new(*lateError)):
		return "no answer in time"
	case errors.As(r.Err, new(*answerError)):
		return "exit status 0, but no valid answer"
	case r.Err != nil && r.Usage.Wall == 0:
		return "was not started"
	case r.Err != nil:
		return "exit status 0, but what it asked for could not be done"
	}
	return "exit status 0"
}

func (r *Runner) begin(t *Task) Record {
	if r.opts.Begin == nil {
		return noRecord{}
	}
	return r.opts.Begin(Begun{
		Hook: t.Hook(), Task: t.ID(), Attempt: t.known().attempts, Queue: t.Queue(), Binding: t.Binding(), Event: t.EventType(),
		Why: t.why(), Events: t.events.Len(), Waited: t.known().waited,
	})
}

// maxWhy bounds how many events Begun.Why names.
const maxWhy = 10

func (t *Task) why() []string {
	if review := t.known().review; review != nil && review.Subject != "" {
		return []string{review.Subject}
	}
	words := make([]string, 0, min(t.events.Len(), maxWhy))
	for ev := range t.events.All(t.Hook()) {
		if len(words) == maxWhy {
			break
		}
		words = append(words, inWords(&ev))
	}
	return words
}

// inWords says what an event is, in the words of the hook's configuration.
func inWords(ev *event.Event) string {
	name := ev.Binding().Name
	switch ev.Type {
	case event.Startup:
		return "onStartup"
	case event.Tick:
		return fmt.Sprintf("%s (%s)", name, ev.Hook.Schedules[ev.Index].Crontab)
	case event.Synchronization:
		return "Synchronization of " + name
	case event.Change:
		o := ev.Object
		where := o.Name
		if o.Namespace != "" {
			where = o.Namespace + "/" + o.Name
		}
		return fmt.Sprintf("%s %s (%s)", ev.Watch, where, name)
	case event.Conversion:
		return "conversion of " + ev.Hook.Conversions[ev.Index].CRDName
	}
	if ev.Type == event.HTTP {
		return "request for " + name
	}
	return "review by " + name
}
