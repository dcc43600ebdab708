package debug

import (
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// statusDump is what the status page shows. There is nothing in it that an object has or that a hook has printed:
// the page has no password.
type statusDump struct {
	Version string `json:"version"`
	// Loading tells that the hooks are still asked for their configurations.
	Loading bool `json:"loading,omitempty"`
	// NotReloaded is why the hooks are not those of the files.
	NotReloaded string        `json:"notReloaded,omitempty"`
	Hooks       []hookStatus  `json:"hooks"`
	Queues      []queueStatus `json:"queues"`
	Failures    []runStatus   `json:"failures"`
	// Troubles are the bindings that cannot be watched.
	Troubles []troubleStatus `json:"troubles"`
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
	// About is the kind, the crontab, or what else tells bindings apart.
	About string `json:"about,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Objects is missing for bindings that see none.
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

// shownFailures is how many failed runs the page has.
const shownFailures = 10

func status(a *API, _ request) (answer, error) {
	return answer{value: statusOf(&a.Options, time.Now())}, nil
}

func statusOf(o *Options, now time.Time) statusDump {
	hooks := o.Operator.Hooks()
	d := statusDump{Version: o.Version, Loading: hooks == nil, NotReloaded: oneLine(o.Operator.NotReloaded()), Hooks: []hookStatus{}, Queues: []queueStatus{}, Failures: []runStatus{}, Troubles: []troubleStatus{}}
	last := map[string]*runStatus{}
	for _, r := range o.History.Runs("") {
		brief := runStatus{r.ID, r.Hook, r.Started, ago(now.Sub(r.Started)), r.Took, r.Attempt, r.Status, r.Exit}
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
		if (p.StartedUp || p.Standby) && p.Waiting != "" {
			d.Troubles = append(d.Troubles, troubleStatus{Hook: h.Name, Text: oneLine(p.Waiting)})
		}
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
	return d
}

func statusOfQueue(q Queue, now time.Time) queueStatus {
	s := queueStatus{Name: q.Name, Tasks: q.Length, Phase: q.Phase, Failures: q.Failures, RetryIn: history.Duration(q.Left)}
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

// stateOf is the hook in a word or two.
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
		return "standing by"
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
		return "waits for onStartup"
	case !b.Complete:
		return "not enabled"
	case len(b.Troubles) > 0:
		return "in trouble"
	case p.Standby:
		return "standing by"
	case !b.Unlocked:
		return "synchronizing"
	}
	return "watching"
}

func otherBindings(h *hook.Hook, p Progress) (list []bindingStatus) {
	ticking := map[bool]string{true: "ticking", false: "not enabled"}[p.Ticking]
	for a, b := range h.Bindings() {
		status := bindingStatus{Type: string(a.Kind), Name: b.Name, Queue: b.Queue, About: strings.Join(h.About(a), ", "), State: "answers"}
		switch {
		case a.Kind == hook.OnStart, a.Kind == hook.OnKubernetes:
			continue
		case a.Kind == hook.OnSchedule:
			status.State = ticking
		}
		list = append(list, status)
	}
	return list
}
