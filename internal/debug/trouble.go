package debug

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Trouble is something that does not work now, or that a user has paused. The status, /readyz, the status page, the states of hooks and the
// metric are made of one list of them. It has no content of objects and no output of hooks: the page has no password.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// Hooks are those that it is about; none if it is about the operator.
	Hooks []string `json:"hooks,omitempty"`
	// Type and Binding are set if it is about bindings of one type, or about one binding.
	Type    hook.Kind `json:"type,omitempty"`
	Binding string    `json:"binding,omitempty"`
	// Subject is what does not work; Problem says why, and Hint is the next step.
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
	// Notice reports that it is intended: the operator is healthy nevertheless.
	Notice bool `json:"notice,omitempty"`

	// brief is the line of /readyz, where that is not made of Subject and Problem.
	brief string
}

// TroubleKind classifies troubles: it is a label of the metric.
type TroubleKind string

const (
	InReload       TroubleKind = "reload"
	InAPI          TroubleKind = "api"
	InLease        TroubleKind = "lease"
	InWatch        TroubleKind = "watch"
	InFilter       TroubleKind = "filter"
	InFinalizer    TroubleKind = "finalizer"
	InSet          TroubleKind = "set"
	InRegistration TroubleKind = "registration"
	InReviews      TroubleKind = "reviews"
	InQueue        TroubleKind = "queue"
	InParked       TroubleKind = "parked"
	InSpool        TroubleKind = "spool"
	IsPaused       TroubleKind = "paused"
)

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
	return cmp.Or(t.brief, t.sentence(subject))
}

// about reports whether the trouble is about a binding of a hook.
func (t *Trouble) about(hook string, typ hook.Kind, binding string) bool {
	return slices.Contains(t.Hooks, hook) && t.Type == typ && (t.Binding == "" || t.Binding == binding)
}

// Troubles are those of an operator: what it says itself comes first, then hook by hook, then queues.
func Troubles(o Operator) []Trouble {
	all := rejectedHooks(o.Rejected())
	all = append(all, o.Troubles()...)
	for _, h := range o.Hooks() {
		for i := range h.Kubernetes {
			all = append(all, bindingTroubles(h.Name, &h.Kubernetes[i], o.Binding(h, i))...)
		}
	}
	for _, f := range o.Orphans() {
		all = append(all, Trouble{Kind: InFinalizer, Hooks: []string{f.Hook}, Binding: f.Binding, Subject: inHook(f.Hook, f.Binding), Problem: f.orphaned(), Hint: removeOrphan + f.Finalizer,
			brief: fmt.Sprintf("%d objects of %s keep the finalizer %s of hook %q, which is gone%s", f.Objects, f.Resource, f.Finalizer, f.Hook, f.unless())})
	}
	hooksOfSets, lost := lostSets(o)
	sets := map[string]int{}
	for _, s := range o.LostSets() {
		sets[s.Hook]++
	}
	for _, name := range hooksOfSets {
		subject := name
		if !hook.IsName(name) {
			subject = strconv.Quote(name)
		}
		all = append(all, Trouble{Kind: InSet, Hooks: []string{name}, Subject: subject, Problem: lost[name].Text, Hint: lost[name].Hint,
			brief: fmt.Sprintf("the hook %q is gone, its sets of objects are left: %d", name, sets[name])})
	}
	for _, p := range parkedCounts(o.Parked()) {
		all = append(all, Trouble{Kind: InParked, Hooks: []string{p.hook}, Subject: fmt.Sprintf("%s, queue %q", p.hook, p.queue),
			Problem: count(p.tasks, "task") + " parked after the last attempt", Hint: "shell-operator parked list"})
	}
	for _, name := range o.PausedHooks() {
		all = append(all, Trouble{Kind: IsPaused, Hooks: []string{name}, Subject: name, Problem: "is paused", Hint: "shell-operator hook resume " + name, Notice: true})
	}
	for _, q := range o.Queues(1) {
		all = append(all, queueTroubles(&q)...)
	}
	return all
}

func inHook(hook, binding string) string {
	if binding == "" {
		return hook
	}
	return fmt.Sprintf("%s, binding %q", hook, binding)
}

func rejectedHooks(rejected map[string]string) (all []Trouble) {
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		t := Trouble{Kind: InReload, Subject: "hooks", Problem: "the last reload was rejected, the previous hooks stay active: " + oneLine(rejected[name])}
		if name != "" {
			t.Hooks, t.Subject = []string{name}, name
		}
		all = append(all, t)
	}
	return all
}

func bindingTroubles(name string, k *hook.Kubernetes, b Binding) (all []Trouble) {
	in := Trouble{Hooks: []string{name}, Binding: k.Name, Subject: inHook(name, k.Name)}
	for _, text := range b.Troubles {
		in.Kind, in.Problem = InWatch, oneLine(text)
		all = append(all, in)
	}
	for _, text := range b.Finalizing {
		in.Kind, in.Problem = InFinalizer, oneLine(text)
		all = append(all, in)
	}
	if b.FilterFails > 0 {
		r := filterFails(k, b)
		// The error of a filter may quote objects: why has it.
		in.Kind, in.Problem, in.Hint = InFilter, fmt.Sprintf("its filter fails for %d of %s", b.FilterFails, count(b.Objects.Len(), "object")), "shell-operator why "+name+"; "+r.Hint
		all = append(all, in)
	}
	return all
}

// queueTroubles are a pause and tasks that fail.
func queueTroubles(q *Queue) (all []Trouble) {
	in := Trouble{Subject: fmt.Sprintf("queue %q", q.Name)}
	if len(q.Tasks) > 0 && q.Tasks[0].Hook != "" && !q.Keyed {
		in.Hooks = []string{q.Tasks[0].Hook}
	}
	if q.Paused {
		all = append(all, Trouble{Kind: IsPaused, Subject: in.Subject, Problem: "is paused with " + count(q.Length, "task"), Hint: "shell-operator queue resume " + q.Name, Notice: true})
	}
	in.Kind = InQueue
	switch {
	case q.Keyed && q.Delayed > 0:
		in.Problem = fmt.Sprintf("failed tasks wait for their next attempt, lanes: %d, tasks of the queue: %d", q.Delayed, q.Length)
		if q.Left > 0 {
			in.Problem += ", the first is due in " + short(q.Left)
		}
		return append(all, in)
	case q.Phase == Sleeping && q.Failures > 0:
		in.Problem = fmt.Sprintf("%s has failed %s, the next attempt is in %s", headOf(q), times(q.Failures), short(q.Left))
		return append(all, in)
	}
	return all
}

// headOf names the first task.
func headOf(q *Queue) string {
	switch {
	case len(q.Tasks) == 0:
		return ""
	case q.Tasks[0].Hook == "":
		return q.Tasks[0].Description
	}
	t := q.Tasks[0]
	return strings.Join(slices.Compact([]string{t.Hook, t.Type, t.Binding}), " · ")
}

type parkedCount struct {
	hook, queue string
	tasks       int
}

// parkedCounts counts parked tasks by hook and queue.
func parkedCounts(tasks []ParkedTask) (all []parkedCount) {
	for _, p := range tasks {
		i := slices.IndexFunc(all, func(s parkedCount) bool { return s.hook == p.Hook && s.queue == p.Queue })
		if i < 0 {
			i, all = len(all), append(all, parkedCount{hook: p.Hook, queue: p.Queue})
		}
		all[i].tasks++
	}
	return all
}
