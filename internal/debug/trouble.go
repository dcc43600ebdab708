package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Trouble is something that does not work now, or that a user has paused. The status, /readyz, the status page, the states of hooks and the
// metric are made of one list of them. It has no content of objects and no output of hooks: the page has no password.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// Hooks are those that it is about; none if it is about the operator.
	Hooks []string `json:"hooks,omitempty"`
	// Queue is set if it is about tasks of one queue.
	Queue string `json:"queue,omitempty"`
	// Run is set if it is about one run.
	Run string `json:"run,omitempty"`
	// Since is when it began, if that is known, otherwise when it was first reported.
	Since time.Time `json:"since,omitzero"`
	// Type and Binding are set if it is about bindings of one type, or about one binding.
	Type    hook.Kind `json:"type,omitempty"`
	Binding string    `json:"binding,omitempty"`
	// Subject is what does not work; Problem says why, and Hint is the next step.
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
	// Notice reports that it is intended: the operator is healthy nevertheless.
	Notice bool `json:"notice,omitempty"`
}

// TroubleKind classifies troubles and reasons: it is a label of the metric.
type TroubleKind string

const (
	InReload       TroubleKind = "reload"
	InLease        TroubleKind = "lease"
	InSpool        TroubleKind = "spool"
	InRegistration TroubleKind = "registration"
	InReviews      TroubleKind = "reviews"
	InWorker       TroubleKind = "worker"
	InWatch        TroubleKind = "watch"
	InFinalizer    TroubleKind = "finalizer"
	InFilter       TroubleKind = "filter"
	InSet          TroubleKind = "set"
	InParked       TroubleKind = "parked"
	InQueue        TroubleKind = "queue"
	IsPaused       TroubleKind = "paused"
)

// troubleKinds is the order in which troubles are shown.
var troubleKinds = []TroubleKind{
	InReload, InLease, InSpool, InRegistration, InReviews, InWorker, InWatch, InFinalizer, InFilter, InSet,
	InParked, InQueue, ByItsOwnRun, IsPaused,
}

// Actions are what can be done about it.
func (t *Trouble) Actions() []Action {
	switch {
	case t.Kind == InParked && t.Queue != "":
		of := []string{"hook", t.Hooks[0], "queue", t.Queue}
		return []Action{acts("parked/retry", of...), acts("parked/drop", of...)}
	case t.Kind == InQueue && len(t.Hooks) > 0: // a FIFO queue
		return []Action{acts("queue/retry", "name", t.Queue), acts("queue/skip", "name", t.Queue)}
	case t.Kind == InQueue:
		return []Action{acts("queue/retry", "name", t.Queue)}
	case t.Run != "":
		return []Action{acts("run/stop", "name", t.Run)}
	case t.Kind == IsPaused && t.Queue != "":
		return []Action{acts("queue/resume", "name", t.Queue)}
	case t.Kind == IsPaused:
		return []Action{acts("hook/resume", "name", t.Hooks[0])}
	}
	return nil
}

// sentences are the troubles as lines.
func sentences(all []Trouble) (lines []string) {
	for i := range all {
		lines = append(lines, all[i].String())
	}
	return lines
}

func (t *Trouble) String() string {
	text := t.sentence(t.Subject)
	switch {
	case t.Hint == "":
		return text
	case strings.HasPrefix(t.Hint, "shell-operator "): // a command
		return text + " (" + t.Hint + ")"
	}
	return text + ": " + t.Hint
}

func (t *Trouble) sentence(subject string) string {
	if t.Kind == IsPaused {
		return subject + " " + t.Problem
	}
	return subject + ": " + t.Problem
}

// Note is the line of /readyz: it says that a hook is one, and has no hint.
func (t *Trouble) Note() string {
	subject := t.Subject
	if len(t.Hooks) == 1 && subject == inHook(t.Hooks[0], t.Binding) {
		subject = fmt.Sprintf("hook %q", t.Hooks[0]) + strings.TrimPrefix(subject, t.Hooks[0])
	}
	return t.sentence(subject)
}

// about reports whether the trouble is about a binding of a hook.
func (t *Trouble) about(hook string, typ hook.Kind, binding string) bool {
	return slices.Contains(t.Hooks, hook) && t.Type == typ && (t.Binding == "" || t.Binding == binding)
}

// concerns reports whether the trouble is a reason for what a hook does. Topics have more to say about filters, parked and failed tasks and
// rejected reloads, and give reasons of their own.
func (t *Trouble) concerns(h *hook.Hook) bool {
	switch t.Kind {
	case InReload, InFilter, InParked, InQueue:
		return false
	}
	return slices.Contains(t.Hooks, h.Name) || t.Queue != "" && owns(h, t.Queue)
}

// reason is a trouble of a hook in why. It blocks the hook, unless it is about a set, or about a binding that the hook has no more.
func (t *Trouble) reason(h *hook.Hook) Reason {
	r := Reason{Kind: t.Kind, Hint: t.Hint, Blocks: t.Kind != InSet && t.Binding == ""}
	for _, b := range h.Bindings() {
		r.Blocks = r.Blocks || t.Binding == b.Name
	}
	switch subject, own := strings.CutPrefix(t.Subject, h.Name); {
	case own && subject == "" && t.Kind == IsPaused:
		r.Text = t.sentence("the hook")
	case own && subject == "":
		r.Text = t.Problem
	default:
		r.Text = t.sentence(strings.TrimPrefix(subject, ", "))
	}
	return r
}

func inHook(hook, binding string) string {
	if binding == "" {
		return hook
	}
	return fmt.Sprintf("%s, binding %q", hook, binding)
}

// joined are the troubles, with one in place of several that a hook has by one cause, such as an API server that answers no binding.
func joined(all []Trouble) (list []Trouble) {
	type cause struct {
		kind                TroubleKind
		hook, problem, hint string
	}
	at, more := map[cause]int{}, map[cause]int{}
	for _, t := range all {
		c := cause{t.Kind, strings.Join(t.Hooks, " "), t.Problem, t.Hint}
		i, has := at[c]
		if !has || t.Notice || c.hook == "" {
			at[c] = len(list)
			list = append(list, t)
			continue
		}
		more[c]++
		list[i].Subject = fmt.Sprintf("%s and %d more", strings.TrimSuffix(list[i].Subject, fmt.Sprintf(" and %d more", more[c]-1)), more[c])
	}
	return list
}
