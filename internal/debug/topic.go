package debug

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Topic is a capability of an operator as its users see it: what it shows, what commands do, what it reports when it does not work. All
// fields may be left out.
type Topic struct {
	// Name and About describe the command whose subcommands call the routes; empty if there is none. Name may have further names behind
	// it.
	Name, About string
	Routes      []Route
	// Troubles are what does not work now, and what a user has paused.
	Troubles func() []Trouble
	// Reasons are what else decides whether a hook runs: its verdict is made of them and of its troubles, wherever it is shown.
	Reasons func(h *hook.Hook, at *Moment) []Reason
	// Metrics are collected at a scrape.
	Metrics []prometheus.Collector
}

// Moment is a time for which reasons are given. It reads the queues once, for all hooks, with at most so many tasks or lanes each.
type Moment struct {
	time.Time
	tasks  int
	queues []Queue
}

// of returns the queues.
func (m *Moment) of(reader queueReader) []Queue {
	if m.queues == nil {
		m.queues = reader.Queues(m.tasks)
	}
	return m.queues
}

// Route is a path of the API: it shows, changes or streams something.
type Route struct {
	Method string
	// Path may have one "*", which stands for a name that may contain slashes.
	Path string
	// About is what the reference says about the answer.
	About string
	// Command calls the route; nil if none does, or one that does more.
	Command *Command

	// show, act or stream is set.
	show   func(request) (answer, error)
	act    func(request) (acted, error)
	stream func(http.ResponseWriter, request) error
	// upstream has the route, too: its errors are text, unless the client accepts JSON only.
	upstream bool
}

// Acts reports that the route can be a dry run.
func (rt *Route) Acts() bool { return rt.act != nil }

// All are the topics of an API that shows these: its own come first.
func All(topics []Topic) []Topic { return slices.Concat((&API{}).own(), topics) }

// Show makes the API one of topics: their routes, reasons and troubles, in this order.
func (a *API) Show(topics []Topic) {
	all := slices.Concat(a.own(), topics)
	a.topics.Store(&all)
}

// own are the topics of the API itself: they are made of all topics.
func (a *API) own() []Topic {
	return []Topic{{Routes: append([]Route{
		{Method: "GET", Path: "/", About: "text `debug endpoint is alive`", show: alive, upstream: true},
		{Method: "GET", Path: "/status", About: "what the status page shows; `healthy` is the verdict", show: a.status},
		{Method: "GET", Path: "/hook/*/why", About: "what the hook waits for", show: a.why, Command: &Command{
			Use: "why HOOK", Short: "Explain what a hook waits for", Args: ofOne, Takes: oneHook,
			Long: `Explain what a hook waits for: its place in a queue and the task at the head, the next attempt, missing permissions and
CRDs, or the events that would run it. The beginning of a hook's name is enough if only one hook has it.

With --object, explain what is known of one object: the bindings that see it, its lanes, attempts and delays, parked contexts, requeues,
sets and finalizers, and the runs that name it.`,
			Example: "  shell-operator why pods.sh\n  shell-operator why pods.sh -o json | jq -r .verdict\n" +
				"  shell-operator why --object Order/shop/blue",
			Flags: []Flag{{Name: "object", Path: objectPath, Usage: "explain what is known of this `KIND/NAMESPACE/NAME` instead"}},
		}},
	}, a.lists()...)}}
}

// Troubles are the troubles of all topics, by kind. It remembers when each was first reported.
func (a *API) Troubles() (all []Trouble) {
	for _, t := range *a.topics.Load() {
		if t.Troubles != nil {
			all = append(all, t.Troubles()...)
		}
	}
	slices.SortStableFunc(all, func(a, b Trouble) int { return slices.Index(troubleKinds, a.Kind) - slices.Index(troubleKinds, b.Kind) })
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.reported
	a.reported = map[string]time.Time{}
	for i := range all {
		if t := &all[i]; t.Since.IsZero() {
			of := string(t.Kind) + " " + t.Subject
			if t.Since = before[of]; t.Since.IsZero() {
				t.Since = time.Now().Truncate(time.Second)
			}
			a.reported[of] = t.Since
		}
	}
	return all
}

// Paths are the paths of the routes for GET that do not stream.
func Paths(routes []Route) (all []string) {
	for _, r := range routes {
		if r.Method == http.MethodGet && r.stream == nil {
			all = append(all, r.Path)
		}
	}
	return all
}
