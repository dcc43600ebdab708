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
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// Status has the facts of the status page, which shows neither content of objects nor output of hooks: a password does not protect it.
type Status struct {
	Version string `json:"version"`
	// Cluster is the address of the API server, Instance the name of the installation. Role is what this replica is among several: leader,
	// standby, or its shard; empty for the only one.
	Cluster  string `json:"cluster,omitempty"`
	Instance string `json:"instance,omitempty"`
	Role     string `json:"role,omitempty"`
	// Healthy reports that hooks are loaded, that the operator is ready, and that no trouble but notices is there.
	Healthy bool `json:"healthy"`
	// Loading reports that the config calls of hooks are still running.
	Loading bool `json:"loading,omitempty"`
	// NotReady is why requests are not answered; empty if they are.
	NotReady string `json:"notReady,omitempty"`
	// Shard is this replica's share in the work; nil without shards.
	Shard  *ShardStatus `json:"shard,omitempty"`
	Hooks  []HookStatus `json:"hooks"`
	Queues []Queue      `json:"queues"`
	// Requeues are the requeues in all queues; nil without any.
	Requeues *Requeues   `json:"requeues,omitempty"`
	Failures []runStatus `json:"failures"`
	// Troubles are what does not work, and what is paused.
	Troubles []Trouble `json:"troubles"`
}

type HookStatus struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`
	Bindings []bindingStatus `json:"bindings"`
	Objects  int             `json:"objects"`
	// Workers are set for a hook with settings.worker.
	Workers []worker.Status `json:"workers,omitempty"`
	Last    *runStatus      `json:"lastRun,omitempty"`
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

type runStatus struct {
	ID      string           `json:"id"`
	Hook    string           `json:"hook"`
	Started time.Time        `json:"started"`
	Took    history.Duration `json:"took"`
	Attempt int              `json:"attempt"`
	Status  history.Status   `json:"status"`
	Exit    string           `json:"exit,omitempty"`
}

// shownFailures limits the failed runs of the page, statusTasks the tasks of a queue that are read for it: it is polled.
const shownFailures, statusTasks = 10, 3

func (a *API) status(r request) (answer, error) {
	now := time.Now()
	s := a.statusAt(now, true)
	if r.format != textFormat { // which pages poll
		return answer{value: s}, nil
	}
	return answer{value: s, text: s.Text(now)}, nil
}

// statusAt is the status. For those who may read the debug API it is full: with the causes of failures, which may quote what hooks printed.
func (a *API) statusAt(now time.Time, full bool) Status {
	o := &a.o
	hooks := o.Hooks.Active()
	d := Status{
		Version: o.Version, Cluster: o.Cluster, Instance: o.Instance, Loading: hooks == nil, NotReady: o.NotReady(),
		Hooks: []HookStatus{}, Queues: []Queue{}, Failures: []runStatus{},
		Troubles: append([]Trouble{}, a.Troubles()...),
	}
	for i := 0; full && i < len(d.Troubles); i++ {
		d.Troubles[i] = d.Troubles[i].revealed()
	}
	if o.Shard != nil {
		d.Shard = o.Shard()
	}
	switch {
	case d.Shard != nil:
		d.Role = d.Shard.role()
	case o.Role != nil:
		d.Role = o.Role()
	}
	last := map[string]*runStatus{}
	for _, r := range o.History.Runs("") {
		brief := runStatus{ID: r.ID, Hook: r.Hook, Started: r.Started, Took: r.Took, Attempt: r.Attempt, Status: r.Status}
		if !full { // a password does not protect the page
			r.Cause = ""
			r.Answer, _, _ = strings.Cut(r.Answer, ":")
		}
		brief.Exit = r.End()
		if last[r.Hook] == nil {
			last[r.Hook] = &brief
		}
		if r.Status.Bad() && len(d.Failures) < shownFailures {
			d.Failures = append(d.Failures, brief)
		}
	}
	at := &Moment{Time: now, tasks: statusTasks}
	d.Queues = append(d.Queues, at.of(o.Queues)...)
	d.Requeues = requeues(d.Queues, nil)
	for _, h := range hooks {
		s := HookStatus{Name: h.Name, State: string(verdict(a.deciding(h, at, d.Troubles))), Last: last[h.Name],
			Bindings: o.bindingsOf(h, d.Troubles)}
		for _, b := range s.Bindings {
			if b.Objects != nil {
				s.Objects += *b.Objects
			}
		}
		if h.Settings.Worker != nil {
			state, _ := o.Workers.Workers(h)
			s.Workers = state.Workers
		}
		if len(s.Bindings) == 0 {
			s.Bindings = append(s.Bindings, bindingStatus{Name: "no bindings"})
		}
		d.Hooks = append(d.Hooks, s)
	}
	d.Healthy = !d.Loading && d.NotReady == "" && !slices.ContainsFunc(d.Troubles, func(t Trouble) bool { return !t.Notice })
	return d
}

// Lists are the troubles as they are shown, those with one cause as one: what does not work, and what is paused.
func (s *Status) Lists() (problems, notices []Trouble) {
	for _, t := range joined(s.Troubles) {
		if t.Notice {
			notices = append(notices, t)
		} else {
			problems = append(problems, t)
		}
	}
	return problems, notices
}

// Verdict is the health of the operator in a word or two.
func (s *Status) Verdict() string {
	problems, _ := s.Lists()
	n := len(problems)
	switch {
	case s.Loading:
		return "hooks are being loaded"
	case s.Healthy:
		return "healthy"
	case s.NotReady != "":
		n++
	}
	return Count(n, "problem")
}

// shownProblems limits the lists of the text form, which fits a screen.
const shownProblems = 10

// Text is the status on one screen.
func (s *Status) Text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "shell-operator %s: %s\n", s.Version, s.Verdict())
	if s.Shard != nil {
		fmt.Fprintln(&b, s.Shard.Text(now))
	}
	list := func(title string, troubles []Trouble, more ...string) {
		var lines []string
		for i := range troubles {
			lines = append(lines, troubles[i].String())
		}
		if lines = append(lines, more...); len(lines) == 0 {
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
	problems, notices := s.Lists()
	var unready []string
	if s.NotReady != "" && !s.Loading {
		unready = append(unready, s.NotReady)
	}
	list("problems", problems, unready...)
	list("notices", notices)
	states, waiting, workers := map[string]int{}, 0, []worker.Status{}
	for _, h := range s.Hooks {
		states[h.State]++
		workers = append(workers, h.Workers...)
	}
	fmt.Fprintf(&b, "hooks: %d%s\n", len(s.Hooks), tallies(states))
	if text := tallyWorkers(workers); text != "" {
		fmt.Fprintln(&b, text)
	}
	phases := map[string]int{}
	for _, q := range s.Queues {
		waiting += q.Tasks
		phases[cmp.Or(string(q.Phase), "idle")]++
	}
	fmt.Fprintf(&b, "queues: %d%s, %s\n", len(s.Queues), tallies(phases), Count(waiting, "task"))
	if s.Requeues != nil {
		fmt.Fprintln(&b, s.Requeues)
	}
	var failures []string
	for _, r := range s.Failures {
		failures = append(failures, fmt.Sprintf("%s %s, %s ago: %s", r.ID, r.Hook, ago(now.Sub(r.Started)), r.Exit))
	}
	list("last failed runs", nil, failures...)
	return b.String()
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

func watchState(p Progress, b watch.State) string {
	switch {
	case p.Paused:
		return "paused"
	case !p.StartedUp && !p.Standby:
		return "waiting for onStartup"
	case !b.Complete:
		return "not enabled"
	case len(b.Troubles) > 0:
		return watchFailing
	case p.Standby:
		return "standby"
	case !b.Unlocked:
		return "synchronizing"
	}
	return "watching"
}

// States of bindings in trouble, and of their hooks.
const (
	reviewsFail   = "reviews fail"
	notRegistered = "not registered"
	watchFailing  = "watch failing"
)

// bindingsOf are the bindings of a hook with their states.
func (o *Options) bindingsOf(h *hook.Hook, troubles []Trouble) (list []bindingStatus) {
	p := o.Bindings.Progress(h)
	for a, b := range h.Bindings() {
		status := bindingStatus{Type: string(a.Kind), Name: b.Name, Queue: b.Queue, About: strings.Join(h.About(a), ", "), State: "serving"}
		switch a.Kind {
		case hook.OnStart:
			status.State = map[bool]string{true: "done", false: "waiting"}[p.StartedUp]
		case hook.OnSchedule:
			status.State = map[bool]string{true: "scheduled", false: "not enabled"}[p.Ticking]
		case hook.OnKubernetes:
			is := o.Bindings.Binding(h, a.Index)
			n := is.Objects.Len()
			status.Objects, status.State = &n, watchState(p, is)
		}
		for i := range troubles {
			switch t := &troubles[i]; {
			case !t.about(h.Name, a.Kind, b.Name):
			case t.Kind == InRegistration:
				status.State = notRegistered
			case t.Kind == InReviews && status.State != notRegistered:
				status.State = reviewsFail
			}
		}
		list = append(list, status)
	}
	return list
}
