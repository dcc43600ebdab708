package debug

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Status is what the status page shows. It has no content of objects and no output of hooks: the page has no password.
type Status struct {
	Version string `json:"version"`
	// Healthy reports that hooks are loaded and that none of them fails, is not enabled, or was rejected by the last reload.
	Healthy bool `json:"healthy"`
	// Loading reports that the config calls of hooks are still running.
	Loading bool `json:"loading,omitempty"`
	// Rejected are the hooks that made the last reload fail, with the cause.
	Rejected map[string]string `json:"rejected,omitempty"`
	Hooks    []hookStatus      `json:"hooks"`
	Queues   []queueStatus     `json:"queues"`
	Failures []runStatus       `json:"failures"`
	// Troubles are requests of bindings that fail now.
	Troubles []troubleStatus `json:"troubles"`
	// PausedHooks are names. Parked are counts of parked tasks by hook and queue.
	PausedHooks []string       `json:"pausedHooks"`
	Parked      []parkedStatus `json:"parked"`
}

type parkedStatus struct {
	Hook  string `json:"hook"`
	Queue string `json:"queue"`
	Tasks int    `json:"tasks"`
}

type hookStatus struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`
	Bindings []bindingStatus `json:"bindings"`
	Objects  int             `json:"objects"`
	Last     *runStatus      `json:"lastRun,omitempty"`
}

type bindingStatus struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// About is the kind, the crontab or the CRD.
	About string `json:"about,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Objects is nil for bindings without objects.
	Objects *int   `json:"objects,omitempty"`
	State   string `json:"state"`
}

type queueStatus struct {
	Name     string           `json:"name"`
	Tasks    int              `json:"tasks"`
	Phase    Phase            `json:"phase"`
	For      history.Duration `json:"for"`
	Head     string           `json:"head,omitempty"`
	Failures int              `json:"failures,omitempty"`
	RetryIn  history.Duration `json:"retryIn,omitempty"`
	// Delayed are the lanes of a keyed queue that wait for their next attempt.
	Delayed int  `json:"delayed,omitempty"`
	Paused  bool `json:"paused,omitempty"`
}

type runStatus struct {
	ID      string           `json:"id"`
	Hook    string           `json:"hook"`
	Started time.Time        `json:"started"`
	Ago     string           `json:"-"`
	Took    history.Duration `json:"took"`
	Attempt int              `json:"attempt"`
	Status  history.Status   `json:"status"`
	Exit    string           `json:"exit,omitempty"`
}

type troubleStatus struct {
	Hook    string `json:"hook"`
	Binding string `json:"binding,omitempty"`
	Text    string `json:"text"`
}

// shownFailures limits the failed runs of the page.
const shownFailures = 10

func status(a *API, _ request) (answer, error) {
	now := time.Now()
	s := statusOf(&a.Options, now)
	return answer{value: s, text: s.Text(now)}, nil
}

func statusOf(o *Options, now time.Time) Status {
	hooks := o.Operator.Hooks()
	d := Status{Version: o.Version, Loading: hooks == nil, Rejected: o.Operator.Rejected(), Hooks: []hookStatus{}, Queues: []queueStatus{}, Failures: []runStatus{}, Troubles: []troubleStatus{}, PausedHooks: append([]string{}, o.Operator.PausedHooks()...), Parked: parkedCounts(o.Operator.Parked())}
	last := map[string]*runStatus{}
	for _, r := range o.History.Runs("") {
		brief := runStatus{r.ID, r.Hook, r.Started, ago(now.Sub(r.Started)), r.Took, r.Attempt, r.Status, r.Exit + message(&r)}
		if last[r.Hook] == nil {
			last[r.Hook] = &brief
		}
		if r.Status.Bad() && len(d.Failures) < shownFailures {
			d.Failures = append(d.Failures, brief)
		}
	}
	queues := o.Operator.Queues(1)
	for _, q := range queues {
		d.Queues = append(d.Queues, statusOfQueue(q, now))
	}
	for _, h := range hooks {
		s := hookStatus{Name: h.Name, Last: last[h.Name], Bindings: []bindingStatus{}}
		p := o.Operator.Progress(h)
		s.State = stateOf(h, p, queues)
		if h.OnStartup != nil {
			s.Bindings = append(s.Bindings, bindingStatus{Type: "onStartup", Name: "onStartup", State: map[bool]string{true: "done", false: "waiting"}[p.StartedUp]})
		}
		for i := range h.Kubernetes {
			b := o.Operator.Binding(h, i)
			k := &h.Kubernetes[i]
			n := b.Objects.Len()
			s.Objects += n
			s.Bindings = append(s.Bindings, bindingStatus{Type: "kubernetes", Name: k.Name, About: k.Kind, Queue: k.Queue, Objects: &n, State: watchState(p, b)})
			for _, t := range b.Troubles {
				d.Troubles = append(d.Troubles, troubleStatus{h.Name, k.Name, oneLine(t)})
			}
			for _, t := range b.Finalizing {
				d.Troubles = append(d.Troubles, troubleStatus{h.Name, k.Name, oneLine(t)})
			}
		}
		s.Bindings = append(s.Bindings, otherBindings(h, p)...)
		if s.State == "ready" && slices.ContainsFunc(s.Bindings, func(b bindingStatus) bool { return b.State == "synchronizing" }) {
			s.State = "synchronizing"
		}
		if len(s.Bindings) == 0 {
			s.Bindings = append(s.Bindings, bindingStatus{Name: "no bindings"})
		}
		d.Hooks = append(d.Hooks, s)
	}
	for _, f := range o.Operator.Orphans() {
		d.Troubles = append(d.Troubles, troubleStatus{f.Hook, f.Binding, f.orphaned() + ": " + removeOrphan + f.Finalizer})
	}
	hooksOfSets, lost := lostSets(o.Operator)
	for _, name := range hooksOfSets {
		d.Troubles = append(d.Troubles, troubleStatus{Hook: name, Text: lost[name].Text + ": " + lost[name].Hint})
	}
	d.Healthy = !d.Loading && len(d.Rejected)+len(d.Troubles)+len(d.PausedHooks)+len(d.Parked) == 0 && !slices.ContainsFunc(d.Queues, queueStatus.inTrouble)
	return d
}

func (q queueStatus) failing() bool   { return q.Phase == Sleeping && q.Failures > 0 || q.Delayed > 0 }
func (q queueStatus) inTrouble() bool { return q.failing() || q.Paused }

func parkedCounts(tasks []ParkedTask) []parkedStatus {
	all := []parkedStatus{}
	for _, p := range tasks {
		i := slices.IndexFunc(all, func(s parkedStatus) bool { return s.Hook == p.Hook && s.Queue == p.Queue })
		if i < 0 {
			i, all = len(all), append(all, parkedStatus{Hook: p.Hook, Queue: p.Queue})
		}
		all[i].Tasks++
	}
	return all
}

// shownProblems limits the lists of the text form, which fits a screen.
const shownProblems = 10

// Text is the status on one screen.
func (s *Status) Text(now time.Time) string {
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:\n", title)
		for i, line := range lines {
			if i == shownProblems {
				fmt.Fprintf(&b, "- and %d more\n", len(lines)-i)
				break
			}
			b.WriteString("- " + line + "\n")
		}
	}
	problems := s.problems()
	switch {
	case s.Loading:
		fmt.Fprintf(&b, "shell-operator %s: hooks are being loaded\n", s.Version)
	case s.Healthy:
		fmt.Fprintf(&b, "shell-operator %s: healthy\n", s.Version)
	default:
		fmt.Fprintf(&b, "shell-operator %s: %s\n", s.Version, count(len(problems), "problem"))
	}
	list("problems", problems)
	states, waiting := map[string]int{}, 0
	for _, h := range s.Hooks {
		states[h.State]++
	}
	fmt.Fprintf(&b, "hooks: %d%s\n", len(s.Hooks), tallies(states))
	phases := map[string]int{}
	for _, q := range s.Queues {
		waiting += q.Tasks
		phases[cmp.Or(string(q.Phase), "idle")]++
	}
	fmt.Fprintf(&b, "queues: %d%s, %s\n", len(s.Queues), tallies(phases), count(waiting, "task"))
	var failures []string
	for _, r := range s.Failures {
		failures = append(failures, fmt.Sprintf("%s %s, %s ago: %s", r.ID, r.Hook, ago(now.Sub(r.Started)), r.Exit))
	}
	list("last failed runs", failures)
	return b.String()
}

// problems are the causes for which the operator is not healthy, one line each.
func (s *Status) problems() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Rejected)) {
		lines = append(lines, strings.TrimPrefix(name+": the last reload was rejected: ", ": ")+oneLine(s.Rejected[name]))
	}
	for _, t := range s.Troubles {
		where := t.Hook
		if t.Binding != "" {
			where += fmt.Sprintf(", binding %q", t.Binding)
		}
		lines = append(lines, where+": "+t.Text)
	}
	for _, p := range s.Parked {
		lines = append(lines, fmt.Sprintf("%s, queue %q: %s parked after the last attempt (shell-operator parked list)", p.Hook, p.Queue, count(p.Tasks, "task")))
	}
	for _, h := range s.PausedHooks {
		lines = append(lines, fmt.Sprintf("%s is paused (shell-operator hook resume %s)", h, h))
	}
	for _, q := range s.Queues {
		if q.Paused {
			lines = append(lines, fmt.Sprintf("queue %q is paused with %s (shell-operator queue resume %s)", q.Name, count(q.Tasks, "task"), q.Name))
		}
		switch {
		case q.Delayed > 0 && q.Failures == 0:
			lines = append(lines, fmt.Sprintf("queue %q: %s of %s wait for their next attempt", q.Name, count(q.Delayed, "lane"), count(q.Tasks, "task")))
		case q.failing():
			lines = append(lines, fmt.Sprintf("queue %q: %s has failed %s, the next attempt is in %s", q.Name, q.Head, times(q.Failures), q.RetryIn))
		}
	}
	return lines
}

// tallies renders counts as " (3 ready, 1 failing)".
func tallies(counts map[string]int) string {
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func statusOfQueue(q Queue, now time.Time) queueStatus {
	s := queueStatus{Name: q.Name, Tasks: q.Length, Phase: q.Phase, Failures: q.Failures, RetryIn: history.Duration(q.Left), Paused: q.Paused}
	if q.Keyed {
		s.Delayed = q.Delayed
	}
	if !q.Since.IsZero() {
		s.For = history.Duration(now.Sub(q.Since))
	}
	if len(q.Tasks) > 0 {
		if t := q.Tasks[0]; t.Hook == "" {
			s.Head = t.Description
		} else {
			s.Head = strings.Join(slices.Compact([]string{t.Hook, t.Type, t.Binding}), " · ")
		}
	}
	return s
}

// stateOf is the state of a hook in a word or two.
func stateOf(h *hook.Hook, p Progress, queues []Queue) string {
	for _, q := range queues {
		if len(q.Tasks) == 0 || q.Tasks[0].Hook != h.Name {
			continue
		}
		switch q.Phase {
		case Running:
			return "running"
		case Sleeping:
			return "failing"
		case Waiting:
			return "rate limit"
		}
	}
	runsElsewhere := p.Standby && (h.OnStartup != nil || len(h.Kubernetes)+len(h.Schedules) > 0)
	switch {
	case runsElsewhere && p.Waiting == "":
		return "standby"
	case !p.StartedUp && !p.Standby:
		return "starting"
	case p.Waiting != "":
		return "not enabled"
	}
	return "ready"
}

func watchState(p Progress, b Binding) string {
	switch {
	case !p.StartedUp && !p.Standby:
		return "waiting for onStartup"
	case !b.Complete:
		return "not enabled"
	case len(b.Troubles) > 0:
		return "watch failing"
	case p.Standby:
		return "standby"
	case !b.Unlocked:
		return "synchronizing"
	}
	return "watching"
}

func otherBindings(h *hook.Hook, p Progress) (list []bindingStatus) {
	scheduled := map[bool]string{true: "scheduled", false: "not enabled"}[p.Ticking]
	for a, b := range h.Bindings() {
		status := bindingStatus{Type: string(a.Kind), Name: b.Name, Queue: b.Queue, About: strings.Join(h.About(a), ", "), State: "serving"}
		switch a.Kind {
		case hook.OnStart, hook.OnKubernetes:
			continue
		case hook.OnSchedule:
			status.State = scheduled
		}
		list = append(list, status)
	}
	return list
}
