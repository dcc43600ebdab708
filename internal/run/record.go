package run

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// Outputs is the content of the files that a hook wrote.
type Outputs = workspace.Outputs

// Record receives the output of one run. Its methods must not block.
type Record interface {
	Output(line []byte)
	// Started receives the pid of the process, or of the worker that serves the run.
	Started(pid int)
	// Processed reports that the process has ended.
	Processed()
	// Tail returns the end of the output so far.
	Tail() string
}

type noRecord struct{}

func (noRecord) Output([]byte) {}
func (noRecord) Started(int)   {}
func (noRecord) Processed()    {}
func (noRecord) Tail() string  { return "" }

// Report describes a run that has ended.
type Report struct {
	Hook *hook.Hook
	// Key is the key of the lane in the queue.
	Binding, Queue, Key string
	Waited              time.Duration
	// Attempt counts from 1 since the attempts of the task began.
	Attempt int
	// Merged is the number of other tasks in the run.
	Merged int
	Wall   time.Duration
	Usage  process.Usage
	// Served is the worker of the run.
	Served process.Served
	// Kubectl are the calls of kubectl by the hook, if it calls the trimmed one.
	Kubectl []kubectl.Calls
	// Changes are the changes of objects that the run tried.
	Changes []Change
	// Response is what the client of a review gets: the verdict and its message.
	Response string
	// Result is what the hook wrote to its result file.
	Result effect.Result
	// InvalidResult is why the result file of a failed hook was ignored.
	InvalidResult error
	// Err is the failure of the run, Cause is the line about it that people read. It may quote what the hook printed: PublicReason is for
	// others. Allowed reports that the bindings allow failure.
	Err     error
	Cause   string
	Allowed bool
	// Interrupted reports that a shutdown ended the run.
	Interrupted bool
}

// Change names a change of an object. Values are never kept.
type Change struct {
	Operation string `json:"operation"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Outcome is Applied, Failed or NotSent.
	Outcome string `json:"outcome,omitempty"`
	// Warnings are what the API server warned of.
	Warnings []string `json:"warnings,omitempty"`
}

func (c *Change) String() string {
	return strings.Join(strings.Fields(c.Operation+" "+c.Kind+" "+strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")), " ")
}

// Outcomes of a change.
const (
	Applied = "applied"
	Failed  = "failed"
	NotSent = "not sent"
)

// How a run ends whose process succeeded.
const (
	Succeeded = "exit status 0"
	Unapplied = "exit status 0, but its output was not applied"
)

// Exit describes how the process or else the run ended: "exit status 1", "signal: killed". It contains no output of the
// hook.
func (r *Report) Exit() string {
	if r.Err == nil {
		return Succeeded
	}
	switch exit, _ := ending(r.Err); {
	case exit != "":
		return exit
	case r.Usage.Wall == 0:
		return "was not started"
	}
	return Unapplied
}

// PublicReason describes a failure by what the hook has written for people, else without what it printed, which may be secret.
func PublicReason(err error) string {
	var m *messageError
	switch gaveUp := process.Printable(GaveUp(err)); {
	case errors.As(err, &m) && gaveUp != "":
		return m.message + ": " + gaveUp
	case m != nil:
		return m.message
	case gaveUp != "":
		return gaveUp
	}
	_, reason := ending(err)
	return reason
}

// ending describes a failure as the end of a process, if it is one, and as a reason.
func ending(err error) (exit, reason string) {
	var status *process.ExitError
	var timeout *process.TimeoutError
	var start *process.StartError
	var worker *process.WorkerError
	var request *requestError
	switch {
	case errors.As(err, &status):
		return status.Status, status.Status
	case errors.As(err, &timeout):
		return fmt.Sprintf("ended after the time limit of %s", timeout.Limit), "it was still running after " + timeout.Limit.String()
	case errors.As(err, new(*process.StopError)):
		return "ended by runs stop", "it was ended by runs stop"
	case errors.As(err, &start):
		return "could not be started", "it cannot be started: " + start.Reason()
	case errors.As(err, &worker):
		return "not served by its worker", worker.Problem
	case errors.As(err, &request):
		return request.exit, request.reason
	}
	return "", "its output could not be applied; the operator's log has the error"
}

// maxWhy limits Describe.
const maxWhy = 10

// Describe describes the first few events of the task.
func (t *Task) Describe() []string {
	if review := t.readExtra().review; review != nil && review.Subject != "" {
		return []string{review.Subject}
	}
	words := make([]string, 0, min(t.events.Len(), maxWhy))
	for ev := range t.Events() {
		if len(words) == maxWhy {
			break
		}
		words = append(words, DescribeEvent(&ev))
	}
	return words
}

// DescribeEvent returns what happened, in the terms of the hook's configuration.
func DescribeEvent(ev *event.Event) string {
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
