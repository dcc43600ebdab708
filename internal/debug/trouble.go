package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Trouble is something that does not work now, or that a user has paused. The status, /readyz, the status page, the states of hooks and the
// metric are made of one list of them. Content of objects and output of hooks are in object and cause only, which pages without a
// password do not show.
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
	// object is the first object, cause the cause of its failure: the status page shows neither. part reports that the hook works in part.
	object, cause string
	part          bool
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
	switch {
	case subject == "": // of several
		return t.Problem
	case t.Kind == IsPaused:
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

// concerns reports whether the trouble is a reason for what a hook does: a rejected reload is one for all hooks. The topic of queues
// has more to say about failed tasks, and gives reasons of its own.
func (t *Trouble) concerns(h *hook.Hook) bool {
	switch t.Kind {
	case InReload:
		return true
	case InQueue:
		return false
	}
	return slices.Contains(t.Hooks, h.Name) || t.Queue != "" && owns(h, t.Queue)
}

// reason returns the reason that why shows. It blocks the hook, unless the hook works in part or no longer has the binding.
func (t *Trouble) reason(h *hook.Hook) Reason {
	r := Reason{Kind: t.Kind, Hint: t.Hint, Blocks: t.Binding == "" && !t.part}
	for _, b := range h.Bindings() {
		r.Blocks = r.Blocks || t.Binding == b.Name && !t.part
	}
	shown := t.revealed()
	t = &shown
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

// revealed is the trouble with what the status page does not show.
func (t *Trouble) revealed() Trouble {
	shown := *t
	shown.Subject, shown.Problem = strings.TrimSuffix(t.Subject+", "+t.object, ", "), t.Problem+colon(OneLine(t.cause))
	return shown
}

func inHook(hook, binding string) string {
	if binding == "" {
		return hook
	}
	return fmt.Sprintf("%s, binding %q", hook, binding)
}

// lacks begins the problem of a missing permission, up to the rule for it.
const lacks = "no permission to "

// joined returns one trouble for all with the same cause, for instance an API server that does not answer, and one for all missing
// permissions.
func joined(all []Trouble) (list []Trouble) {
	type cause struct {
		kind                TroubleKind
		hook, problem, hint string
	}
	type group struct {
		Trouble
		count        int
		hooks, needs sets.Set[string]
	}
	groups, order := map[cause]*group{}, []*group{}
	for _, t := range all {
		c := cause{t.Kind, strings.Join(t.Hooks, " "), t.Problem, t.Hint}
		need, _, _ := strings.Cut(strings.TrimPrefix(t.Problem, lacks), ": ")
		if t.Kind == InWatch {
			if c.hook = ""; strings.HasPrefix(t.Problem, lacks) {
				c.problem = lacks
			}
		}
		if groups[c] == nil || t.Notice || t.Kind != InWatch && c.hook == "" {
			groups[c] = &group{t, 0, sets.New[string](), sets.New[string]()}
			order = append(order, groups[c])
		}
		groups[c].count++
		groups[c].hooks.Insert(t.Hooks...)
		groups[c].needs.Insert(need)
	}
	for _, g := range order {
		lacking := g.Kind == InWatch && g.count > 1 && strings.HasPrefix(g.Problem, lacks)
		switch {
		case lacking:
			g.Problem, g.Hint = lacks+strings.Join(sets.List(g.needs), ", "), "shell-operator rbac prints all rules"
			fallthrough
		case len(g.hooks) > 1 && g.count > 1:
			g.Hooks, g.Subject, g.Binding = sets.List(g.hooks), "", ""
			g.Problem += fmt.Sprintf(" (%s of %s)", Count(g.count, "binding"), Count(len(g.hooks), "hook"))
		case g.count > 1:
			g.Subject += fmt.Sprintf(" and %d more", g.count-1)
		}
		list = append(list, g.Trouble)
	}
	return list
}
