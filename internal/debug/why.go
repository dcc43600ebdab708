package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// facts is all that is needed to say what a hook waits for.
type facts struct {
	hook     *hook.Hook
	progress Progress
	// bindings are what the hook's kubernetes bindings see.
	bindings []Binding
	// nextTicks are those of its schedules; zero: not known.
	nextTicks []time.Time
	queues    []Queue
	// runs are those of the hook, the latest first.
	runs []history.Run
	// notReloaded is why the hooks are not those of the files, or empty.
	notReloaded string
	now         time.Time
}

func why(a *API, r request) (answer, error) {
	h, err := a.hook(r)
	if err != nil {
		return answer{}, err
	}
	f := facts{
		hook: h, progress: a.Operator.Progress(h), queues: a.Operator.Queues(-1), runs: a.History.Runs(h.Name),
		notReloaded: a.Operator.NotReloaded(), now: time.Now(),
	}
	for i := range h.Kubernetes {
		f.bindings = append(f.bindings, a.Operator.Binding(h, i))
	}
	for _, s := range h.Schedules {
		f.nextTicks = append(f.nextTicks, a.Operator.NextTick(s.Crontab))
	}
	e := explain(f)
	return answer{value: e, text: e.text(f.now)}, nil
}

// explain is a pure function, so that every case has a row in a test.
func explain(f facts) Explanation {
	e := Explanation{Hook: f.hook.Name}
	e.Reasons = slices.Concat(f.inQueues(), f.starting(), f.watching(), f.listening(), f.before())
	slices.SortStableFunc(e.Reasons, func(a, b Reason) int {
		switch {
		case a.Blocks == b.Blocks:
			return 0
		case a.Blocks:
			return -1
		}
		return 1
	})
	e.Verdict = verdict(e.Reasons)
	if len(f.runs) > 0 {
		e.last, e.LastRun = &f.runs[0], f.runs[0].ID
	}
	return e
}

func verdict(reasons []Reason) Verdict {
	has := func(kinds ...ReasonKind) bool {
		return slices.ContainsFunc(reasons, func(r Reason) bool { return slices.Contains(kinds, r.Kind) })
	}
	switch {
	case has(ByItsOwnRun):
		return IsRunning
	case has(ByReplica):
		return IsStandingBy
	case len(reasons) > 0 && reasons[0].Blocks:
		return IsHeldUp
	case has(ByQueue):
		return IsNext
	case has(ByEvents, ByClock, ByReviews, ByRequests):
		return IsListening
	}
	return IsDeaf
}

// inQueues tells of the hook's tasks.
func (f *facts) inQueues() (reasons []Reason) {
	for _, q := range f.queues {
		at := slices.IndexFunc(q.Tasks, func(t Task) bool { return t.Hook == f.hook.Name })
		if at < 0 {
			continue
		}
		if at == 0 {
			reasons = append(reasons, f.first(q))
		} else {
			reasons = append(reasons, f.behind(q, at))
		}
	}
	return reasons
}

// first tells of a task of the hook that is the first of its queue.
func (f *facts) first(q Queue) Reason {
	text := fmt.Sprintf("queue %q: its task is the first of %d: %s", q.Name, q.Length, q.Tasks[0].Description)
	switch q.Phase {
	case Running:
		id := ""
		for _, r := range f.runs {
			if r.Status == history.Running && r.Queue == q.Name {
				id = " as " + r.ID
			}
		}
		return Reason{ByItsOwnRun, false, fmt.Sprintf("%s; it has been running%s for %s", text, id, short(f.now.Sub(q.Since))), "if it hangs, set settings.executionTimeout of the hook or --hook-timeout"}
	case Sleeping:
		return Reason{ByRetry, true, fmt.Sprintf("%s; it has failed %s, the next attempt is in %s: %s", text, times(q.Failures), short(q.Left), oneLine(q.LastError)), "mend the hook or what it needs: shell-operator runs " + f.hook.Name + " shows its last runs"}
	case Waiting:
		limit := ""
		if s := f.hook.Settings; s.MinInterval > 0 {
			limit = fmt.Sprintf(" (executionMinInterval %s, executionBurst %d)", s.MinInterval, s.Burst)
		}
		return Reason{ByRateLimit, true, text + "; it waits for the hook's rate limit" + limit, ""}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is being stopped", ""}
	}
	return Reason{ByQueue, false, text + "; it is about to start", ""}
}

// behind tells of a task of the hook that others are in front of.
func (f *facts) behind(q Queue, at int) Reason {
	head := q.Tasks[0]
	text := fmt.Sprintf("queue %q: its task is number %d of %d, behind %s", q.Name, at+1, q.Length, head.Description)
	whose := "the hook " + head.Hook
	if head.Hook == f.hook.Name {
		whose = "the hook"
	}
	switch q.Phase {
	case Sleeping:
		return Reason{ByQueue, true, fmt.Sprintf("%s, which has failed %s, its next attempt is in %s: %s", text, times(q.Failures), short(q.Left), oneLine(q.LastError)),
			"mend " + whose + ", or give the binding a queue of its own"}
	case Running:
		return Reason{ByQueue, true, fmt.Sprintf("%s, which has been running for %s", text, short(f.now.Sub(q.Since))), "to wait for nobody, give the binding a queue of its own"}
	case Waiting:
		return Reason{ByQueue, true, text + ", which waits for its rate limit", "give the binding a queue of its own"}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is being stopped", ""}
	}
	return Reason{ByQueue, true, text, ""}
}

// starting tells what is missing since the start.
func (f *facts) starting() (reasons []Reason) {
	bindings := len(f.hook.Kubernetes) + len(f.hook.Schedules)
	if f.progress.Standby {
		return f.standing()
	}
	if !f.progress.StartedUp {
		if bindings == 0 {
			return nil
		}
		r := Reason{ByStartup, true, "all onStartup runs of all hooks have to succeed before anything else", ""}
		for _, q := range f.queues {
			if q.Name == hook.MainQueue && len(q.Tasks) > 0 && q.Tasks[0].Hook != "" {
				r.Text += ", and this one has not: " + q.Tasks[0].Hook
				if q.Failures > 0 {
					r.Text += fmt.Sprintf(", which has failed %s: %s", times(q.Failures), oneLine(q.LastError))
					r.Mend = "mend that hook: shell-operator runs " + q.Tasks[0].Hook + " shows its last runs"
				}
			}
		}
		return []Reason{r}
	}
	if f.progress.Waiting != "" {
		return []Reason{{ByEnabling, true, "its kubernetes bindings are not enabled yet: " + oneLine(f.progress.Waiting), ""}}
	}
	if !f.progress.Ticking && len(f.hook.Schedules) > 0 {
		reasons = append(reasons, Reason{ByFirstRun, true, "its schedules begin when the Synchronizations before them are over", ""})
	}
	return reasons
}

// standing tells who runs the hook instead of this replica. Whoever asks is answered here as well.
func (f *facts) standing() (reasons []Reason) {
	if f.progress.Waiting != "" {
		reasons = append(reasons, Reason{ByEnabling, true, "its kubernetes bindings are not enabled yet: " + oneLine(f.progress.Waiting), ""})
	}
	if f.hook.OnStartup == nil && len(f.hook.Kubernetes)+len(f.hook.Schedules) == 0 {
		return reasons
	}
	r := Reason{ByReplica, true, fmt.Sprintf("another replica runs the hooks: %q; this one stands by", f.progress.Leader), "ask that one: shell-operator why " + f.hook.Name + ", there"}
	if f.progress.Leader == "" {
		r.Text = "no replica is known to run the hooks now; this one takes over when the Lease is free"
		r.Mend = "if that takes longer than --leader-election-lease-duration, search the log for: Cannot use the Lease"
	}
	return append(reasons, r)
}

// watching tells what is wrong with its kubernetes bindings.
func (f *facts) watching() (reasons []Reason) {
	if !f.progress.StartedUp || f.progress.Waiting != "" {
		return nil
	}
	for i, b := range f.bindings {
		name := f.hook.Kubernetes[i].Name
		for _, t := range b.Troubles {
			reasons = append(reasons, Reason{ByWatch, true, fmt.Sprintf("binding %q sees no changes now: %s", name, oneLine(t)), ""})
		}
		if r, fails := filterReason(&f.hook.Kubernetes[i], b); fails {
			reasons = append(reasons, r)
		}
		if b.Complete && !b.Unlocked {
			reasons = append(reasons, Reason{ByFirstRun, true, fmt.Sprintf("binding %q: events wait (%d so far) until a run of its Synchronization has succeeded", name, b.Held), ""})
		}
	}
	return reasons
}

// filterReason describes a filter that fails. For an object whose filter always fails, the result is always null, so no change of
// it runs the hook.
func filterReason(k *hook.Kubernetes, b Binding) (Reason, bool) {
	if b.FilterFails == 0 {
		return Reason{}, false
	}
	all := b.Objects.Len()
	r := Reason{Kind: ByFilter, Blocks: k.Modified && b.FilterFails == all}
	r.Text = fmt.Sprintf("binding %q: its filter fails for %d of %s (%s), ", k.Name, b.FilterFails, count(all, "object"), oneLine(b.FilterError))
	if b.FilterFails == all {
		r.Text += "so nothing ever changes"
	} else {
		r.Text += "so nothing changes for these"
	}
	r.Mend = "fix the filter: the record \"jqFilter failed\" in the log names an object to try it with"
	return r, true
}

// listening tells what would run the hook.
func (f *facts) listening() (reasons []Reason) {
	if f.progress.StartedUp && f.progress.Waiting == "" {
		for i, b := range f.bindings {
			k := &f.hook.Kubernetes[i]
			wanted := strings.Join(events(k), ", ")
			if !b.Unlocked {
				continue
			}
			text := fmt.Sprintf("binding %q sees %s of the kind %s and waits for: %s", k.Name, count(b.Objects.Len(), "object"), k.Kind, wanted)
			if wanted == "" {
				text = fmt.Sprintf("binding %q sees %s of the kind %s, for snapshots only", k.Name, count(b.Objects.Len(), "object"), k.Kind)
			} else if k.JQFilter != "" {
				text += ", where the result of its jqFilter changes"
			}
			reasons = append(reasons, Reason{ByEvents, false, text, ""})
		}
	}
	for i, s := range f.hook.Schedules {
		if f.progress.Ticking && !f.nextTicks[i].IsZero() {
			reasons = append(reasons, Reason{ByClock, false, fmt.Sprintf("binding %q (%s) is due at %s, in %s", s.Name, s.Crontab, f.nextTicks[i].Format(time.RFC3339), short(f.nextTicks[i].Sub(f.now))), ""})
		}
	}
	callers := map[string]int{}
	all := 0
	for a := range f.hook.Bindings() {
		callers[a.Kind.Caller()]++
		all++
	}
	for _, c := range []struct {
		kind         ReasonKind
		caller, what string
	}{
		{ByReviews, hook.OnValidating.Caller(), "webhook binding"}, {ByRequests, hook.OnHTTP.Caller(), "HTTP binding"},
	} {
		if n := callers[c.caller]; n > 0 {
			reasons = append(reasons, Reason{c.kind, false, count(n, c.what) + ": it runs when " + c.caller + " asks", ""})
		}
	}
	if f.hook.OnStartup != nil && all == 1 {
		reasons = append(reasons, Reason{ByNoBindings, false, event.Startup.String() + " is its only binding: it runs once after each start", ""})
	}
	return reasons
}

// before tells that the hooks are not those of the files.
func (f *facts) before() []Reason {
	if f.notReloaded == "" {
		return nil
	}
	return []Reason{{ByReload, false, "the hooks could not be loaded anew, so its bindings are those from before: " + oneLine(f.notReloaded),
		"mend the files, the log says more"}}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func short(d time.Duration) string { return history.Duration(d.Round(100 * time.Millisecond)).String() }
