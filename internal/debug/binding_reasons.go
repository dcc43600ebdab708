package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/telemetry"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// BindingsTopic reports the start of hooks, and what keeps their bindings from events.
func BindingsTopic(hooks *Hooks, bindings bindingReader, queues queueReader, names telemetry.Names) Topic {
	return Topic{
		Metrics: []prometheus.Collector{names.Gauge("binding_not_installed", func(set telemetry.Set) { notInstalled(hooks, bindings, set) })},
		Reasons: func(h *hook.Hook, at *Moment) []Reason { return factsOf(h, bindings, at.of(queues), at.Time).reasons() },
		Troubles: func() (all []Trouble) {
			for _, h := range hooks.Active() {
				for i := range h.Kubernetes {
					all = append(all, bindingTroubles(h.Name, &h.Kubernetes[i], bindings.Binding(h, i))...)
				}
			}
			return all
		},
	}
}

// notInstalled measures optional bindings. Those of a hook with the same name count as one.
func notInstalled(hooks *Hooks, bindings bindingReader, set telemetry.Set) {
	for _, h := range hooks.Active() {
		of := map[string]int{}
		for i := range h.Kubernetes {
			if k := &h.Kubernetes[i]; k.Optional {
				of[k.Name] |= 1 - rank(bindings.Binding(h, i).NotInstalled)
			}
		}
		for name, is := range of {
			set(is, h.Name, name)
		}
	}
}

// facts is the state of a hook from which the reasons of its bindings are derived.
type facts struct {
	hook     *hook.Hook
	progress Progress
	// bindings are the states of the hook's kubernetes bindings.
	bindings []watch.State
	// nextTicks are the times of the next ticks of its schedules; zero means unknown.
	nextTicks []time.Time
	queues    []Queue
	now       time.Time
	deletions [][]pending.Deletion
}

func factsOf(h *hook.Hook, bindings bindingReader, queues []Queue, now time.Time) *facts {
	f := &facts{hook: h, progress: bindings.Progress(h), queues: queues, now: now}
	for i := range h.Kubernetes {
		f.bindings, f.deletions = append(f.bindings, bindings.Binding(h, i)), append(f.deletions, bindings.Deletions(h, i))
	}
	for _, s := range h.Schedules {
		f.nextTicks = append(f.nextTicks, bindings.NextTick(s.Crontab))
	}
	return f
}

func (f *facts) reasons() []Reason {
	return slices.Concat(f.starting(), f.watching(), f.finalizing(), f.listening())
}

// starting covers the steps of the start that are not complete.
func (f *facts) starting() (reasons []Reason) {
	switch {
	case f.progress.Paused:
		return nil // as another topic says
	case f.progress.Standby:
		return f.standby()
	case !f.progress.StartedUp:
		if len(f.hook.Kubernetes)+len(f.hook.Schedules) == 0 {
			return nil
		}
		return []Reason{f.startup()}
	case f.progress.Waiting != "":
		return []Reason{{ByEnabling, true, f.progress.Waiting, ""}}
	case !f.progress.Ticking && len(f.hook.Schedules) > 0:
		return []Reason{{ByFirstRun, true, "its schedules start after the Synchronization runs queued before them", ""}}
	}
	return nil
}

// startup covers onStartup runs, of any hook, that have not succeeded.
func (f *facts) startup() Reason {
	r := Reason{ByStartup, true, "all onStartup runs of all hooks must succeed first", ""}
	for _, q := range f.queues {
		if q.Name == hook.MainQueue && len(q.FirstLanes) > 0 && q.FirstLanes[0].Hook != "" {
			l := &q.FirstLanes[0]
			r.Text += ", and this one has not: " + l.Hook + ", which " + l.why()
			if l.Failures > 0 {
				r.Hint = "fix that hook: shell-operator runs " + l.Hook + " shows its last runs"
			}
		}
	}
	return r
}

// standby covers a replica that does not lead. Its webhooks and HTTP hooks are served nevertheless.
func (f *facts) standby() (reasons []Reason) {
	if f.progress.Waiting != "" {
		reasons = []Reason{{ByEnabling, true, f.progress.Waiting, ""}}
	}
	if f.hook.OnStartup == nil && len(f.hook.Kubernetes)+len(f.hook.Schedules) == 0 {
		return reasons
	}
	return append(reasons, Reason{ByReplica, true, f.progress.Elsewhere, f.progress.Where})
}

// watching covers what bindings lack, but for requests that fail, which are troubles, and events that wait for a Synchronization.
func (f *facts) watching() (reasons []Reason) {
	if !f.progress.StartedUp || f.progress.Waiting != "" {
		return nil
	}
	for i, b := range f.bindings {
		name := f.hook.Kubernetes[i].Name
		if b.NotInstalled {
			reasons = append(reasons, Reason{InWatch, false,
				fmt.Sprintf("binding %q: the kind %s of %s is not installed, its snapshot is empty", name,
					f.hook.Kubernetes[i].Kind, f.hook.Kubernetes[i].APIVersion), ""})
		}
		for _, namespace := range b.Absent {
			reasons = append(reasons, Reason{InWatch, false,
				fmt.Sprintf("binding %q: the namespace %q did not exist when the binding was enabled, and it has no objects", name, namespace),
				"check namespace.nameSelector.matchNames of the binding"})
		}
		if b.Complete && !b.Unlocked {
			reasons = append(reasons, Reason{ByFirstRun, true,
				fmt.Sprintf("binding %q: events wait (%d so far) until its Synchronization run has succeeded", name, b.Held), ""})
		}
	}
	return reasons
}

// listening covers what would run the hook.
func (f *facts) listening() (reasons []Reason) {
	if f.progress.StartedUp && f.progress.Waiting == "" {
		for i, b := range f.bindings {
			if b.Unlocked {
				reasons = append(reasons, Reason{ByEvents, false, sees(&f.hook.Kubernetes[i], b.Objects.Len()), ""})
			}
		}
	}
	for i, s := range f.hook.Schedules {
		if next := f.nextTicks[i]; f.progress.Ticking && !next.IsZero() {
			reasons = append(reasons, Reason{ByClock, false,
				fmt.Sprintf("binding %q (%s) is due at %s, in %s", s.Name, s.Crontab, next.Format(time.RFC3339), short(next.Sub(f.now))), ""})
		}
	}
	reviews, requests, all := 0, 0, 0
	for a := range f.hook.Bindings() {
		all++
		switch {
		case a.Kind == hook.OnHTTP:
			requests++
		case a.Kind.Caller() != "":
			reviews++
		}
	}
	if reviews > 0 {
		reasons = append(reasons,
			Reason{InReviews, false, Count(reviews, "webhook binding") + ": it runs for each request of the API server", ""})
	}
	if requests > 0 {
		reasons = append(reasons, Reason{ByRequests, false, Count(requests, "HTTP binding") + ": it runs for each request of a client", ""})
	}
	if f.hook.OnStartup != nil && all == 1 {
		reasons = append(reasons, Reason{ByNoBindings, false, event.Startup.String() + " is its only binding: it runs once per start", ""})
	}
	return reasons
}

func sees(k *hook.Kubernetes, objects int) string {
	text := fmt.Sprintf("binding %q sees %s of kind %s", k.Name, Count(objects, "object"), k.Kind)
	wanted := strings.Join(wire.EventsOf(k), ", ")
	switch {
	case wanted == "":
		return text + ", for snapshots only"
	case k.JQFilter != "":
		return text + " and waits for: " + wanted + ", where the result of its jqFilter changes"
	}
	return text + " and waits for: " + wanted
}

// finalizing covers objects whose clean-up has another step.
func (f *facts) finalizing() (reasons []Reason) {
	for i, all := range f.deletions {
		if len(all) == 0 {
			continue
		}
		next := all[0].Object
		text := fmt.Sprintf("binding %q: the deletion of %s goes on, next step in %s", f.hook.Kubernetes[i].Name,
			strings.TrimPrefix(next.Namespace+"/"+next.Name, "/"), max(0, all[0].Due.Sub(f.now)).Round(time.Second))
		if more := len(all) - 1; more > 0 {
			text += fmt.Sprintf(", and that of %s", Count(more, "more object"))
		}
		reasons = append(reasons, Reason{InFinalizer, false, text, ""})
	}
	return reasons
}

func bindingTroubles(name string, k *hook.Kubernetes, b watch.State) (all []Trouble) {
	in := Trouble{Hooks: []string{name}, Binding: k.Name, Subject: inHook(name, k.Name)}
	for _, text := range b.Troubles {
		in.Kind, in.Problem = InWatch, OneLine(text)
		all = append(all, in)
	}
	for _, text := range b.Guarding {
		in.Kind, in.Problem = InFinalizer, OneLine(text)
		all = append(all, in)
	}
	if b.FilterFails > 0 {
		n := b.Objects.Len()
		in.Kind, in.Problem, in.cause = InFilter, fmt.Sprintf("its filter fails for %d of %s", b.FilterFails, Count(n, "object")), b.FilterError
		in.part = !k.Modified || b.FilterFails < n // for an object whose filter always fails, the result is always null: nothing changes
		in.Hint = "shell-operator why " + name + "; fix the filter: the record \"jqFilter failed\" in the log names an object to try it with"
		all = append(all, in)
	}
	return all
}
