package history

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
)

// Run is one attempt to run a hook.
type Run struct {
	// ID is the task's id and the number of its run: "17-2".
	ID string `json:"id"`
	// Task is task.id of the log.
	Task string `json:"task"`
	Hook string `json:"hook"`
	// Queue is empty for runs that answer a request. Key is the key of the lane in a keyed queue.
	Queue   string `json:"queue,omitempty"`
	Key     string `json:"key,omitempty"`
	Binding string `json:"binding,omitempty"`
	// Event is the binding's type.
	Event string `json:"event"`
	// Why has the first of the Events of the run, in words.
	Why     []string `json:"why"`
	Events  int      `json:"events"`
	Attempt int      `json:"attempt"`

	Started time.Time `json:"started"`
	// PID is the process, or the worker that serves the run; 0 before it has started.
	PID int `json:"pid,omitempty"`
	// Waited is the time in the queue.
	Waited Duration `json:"waited"`
	// OwnWrites is the part of Waited for what earlier runs have written to be in the snapshots. Lacking is what they lack nevertheless.
	OwnWrites Duration `json:"ownWrites,omitempty"`
	Lacking   string   `json:"lacking,omitempty"`
	// Phases are the parts of the run so far, in order.
	Phases []Phase `json:"phases,omitempty"`
	// processed is when the process had ended, since the start; 0 if it has not.
	processed Duration

	// Outcome of a run that has not ended has its Status and Took only.
	Outcome
	// Output is the end of the hook's output; OutputCut reports that there was more.
	Output    string `json:"output,omitempty"`
	OutputCut bool   `json:"outputCut,omitempty"`
	// PatchCount is the number of all operations, of which Patches has the first ones.
	PatchCount int `json:"patchCount,omitempty"`
}

// Phase is a part of a run. The last one of a run that has not ended lasts.
type Phase struct {
	Name    PhaseName `json:"name"`
	Started time.Time `json:"started"`
	Took    Duration  `json:"took"`
}

// PhaseName is what happens in a phase.
type PhaseName string

const (
	// Waiting is the time in the queue.
	Waiting PhaseName = "waiting"
	// OwnWrites is the time until the snapshots contained what earlier runs have written.
	OwnWrites PhaseName = "own changes"
	// InProcess is the time of the hook's process, with writing its files.
	InProcess PhaseName = "process"
	// Applying is what follows: checking the outputs, waiting for the turn, operations, conditions, a recording.
	Applying PhaseName = "applying"
)

// Parts are the phases so far, which a Run without Phases makes of its times.
func (r *Run) Parts() (all []Phase) {
	if len(r.Phases) > 0 {
		return r.Phases
	}
	if r.Queue != "" {
		all = append(all, Phase{Waiting, r.Started.Add(-time.Duration(r.Waited)), r.Waited - r.OwnWrites})
	}
	if r.OwnWrites > 0 {
		all = append(all, Phase{OwnWrites, r.Started.Add(-time.Duration(r.OwnWrites)), r.OwnWrites})
	}
	if r.processed == 0 {
		return append(all, Phase{InProcess, r.Started, r.Took})
	}
	return append(all, Phase{InProcess, r.Started, r.processed},
		Phase{Applying, r.Started.Add(time.Duration(r.processed)), max(0, r.Took-r.processed)})
}

// Applies reports that the process of a run in flight has ended: time limits and stops end the process only.
func (r *Run) Applies() bool {
	parts := r.Parts()
	return parts[len(parts)-1].Name == Applying
}

// Status of a run.
type Status string

const (
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	// Allowed is a failure that the binding allows: the run is not tried again.
	Allowed Status = "failed, allowed"
	// Interrupted runs were ended by the operator.
	Interrupted Status = "interrupted"
)

// Bad reports whether the run failed, allowed or not.
func (s Status) Bad() bool { return s == Failed || s == Allowed }

// Duration is a number of seconds in JSON.
type Duration time.Duration

func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t >= 10*time.Second:
		return t.Round(time.Second).String()
	case t >= time.Second:
		return t.Round(10 * time.Millisecond).String()
	case t >= time.Millisecond:
		return t.Round(time.Millisecond).String()
	}
	return t.Round(time.Microsecond).String()
}

// MarshalJSON writes seconds, to the microsecond.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Round(time.Microsecond).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON is for commands that show a list or the status.
func (d *Duration) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	*d = Duration(math.Round(seconds * float64(time.Second)))
	return err
}

// Outcome is how a run ended.
type Outcome struct {
	Status Status `json:"status"`
	// Took is the time of the run so far.
	Took Duration `json:"took"`
	// Worker is the worker that has served the run, in words; empty without one.
	Worker string `json:"worker,omitempty"`
	// Exit is how the process ended: "exit status 0", "signal: killed", or another end of the run.
	Exit string `json:"exit,omitempty"`
	// Cause is the line about a failure that people read; Error has more of it.
	Cause string `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
	// Answer is what the client of a review got: the verdict and its message.
	Answer string `json:"answer,omitempty"`
	// Message is the message in the hook's result file.
	Message string `json:"message,omitempty"`
	// Patches are the operations of the hook; a few are kept.
	Patches []run.Change `json:"patches,omitempty"`
	// Kubectl are the calls of kubectl, if hooks call the trimmed one.
	Kubectl []kubectl.Calls `json:"kubectl,omitempty"`
}

// Reason is Why on one line.
func (r *Run) Reason() string {
	text := strings.Join(r.Why[:min(3, len(r.Why))], ", ")
	if more := r.Events - min(3, len(r.Why)); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Summary is the end of a run on one line, with its status and duration.
func (r *Run) Summary() string {
	if r.Status == Running {
		return "running for " + r.Took.String()
	}
	return string(r.Status) + " after " + r.Took.String() + ": " + r.ended()
}

// End is Summary for tables.
func (r *Run) End() string {
	switch r.Status {
	case Running, Interrupted:
		return string(r.Status)
	case Allowed:
		return r.ended() + " (allowed)"
	}
	return r.ended()
}

// ended has how the process ended, the verdict of a review, and the cause of a failure or the message of the hook.
func (r *Run) ended() string {
	text := r.Exit + r.Verdict()
	switch message := strings.Join(strings.Fields(r.Message), " "); {
	case r.Status.Bad() && r.Exit != "" && strings.Contains(r.Cause, r.Exit):
		return r.Cause
	case r.Status.Bad() && r.Cause != "":
		text, _, _ = strings.Cut(text, ": ") // what the client got says where the cause is
		return text + ": " + r.Cause
	case message != "":
		return text + ": " + message
	}
	return text
}

// Rest returns the error without the cause.
func (r *Run) Rest() string { return strings.TrimSuffix(r.Error, r.Hook+" FAILED: "+r.Cause) }

// Verdict is what the client of a review got, on one line, to follow how the process ended.
func (r *Run) Verdict() string {
	if r.Answer == "" {
		return ""
	}
	return ", " + strings.Join(strings.Fields(r.Answer), " ")
}

// Awaited is the wait for what earlier runs have written, to follow how the run ended; empty without one.
func (r *Run) Awaited() string {
	if r.OwnWrites == 0 {
		return ""
	}
	text := ", waited " + r.OwnWrites.String() + " for its own changes"
	if r.Lacking != "" {
		text += " and began without one: " + r.Lacking
	}
	return text
}

// operations names the operations of a run, the first ones of many.
func (r *Run) operations() string {
	const most = 3
	if r.PatchCount == 0 {
		return ""
	}
	var all []string
	for _, p := range r.Patches[:min(most, len(r.Patches))] {
		all = append(all, p.String())
	}
	text := "; operations: " + strings.Join(all, ", ")
	if more := r.PatchCount - len(all); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// outcomes yields an ended run in the eyes of each object that it names, perhaps repeatedly.
func (r *Run) outcomes() iter.Seq[outcomeOf] {
	return func(yield func(outcomeOf) bool) {
		for _, why := range r.Why {
			switch event, object, _ := strings.Cut(why, " "); event {
			case "Added", "Modified", "Deleted", "Deleting", "Requeued":
				if (r.Status == Succeeded || r.Status.Bad()) && !yield(outcomeOf{r.Hook, object, r.Status.Bad()}) {
					return
				}
			}
		}
	}
}

func (r *Run) cost() int {
	n := overhead + 64*len(r.Kubectl) + len(r.Cause) + len(r.Error) + len(r.Answer) + len(r.Message) + len(r.Output)
	for _, w := range r.Why {
		n += whyOverhead + len(w)
	}
	for _, p := range r.Patches {
		n += 64 + len(p.Operation) + len(p.Kind) + len(p.Namespace) + len(p.Name)
		for _, w := range p.Warnings {
			n += 16 + len(w)
		}
	}
	return n
}
