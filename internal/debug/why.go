package debug

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// facts is the state from which an Explanation is derived.
type facts struct {
	hook     *hook.Hook
	progress Progress
	// bindings are the states of the hook's kubernetes bindings.
	bindings []Binding
	// nextTicks are those of its schedules; zero means unknown.
	nextTicks []time.Time
	queues    []Queue
	// paused reports that the hook is; parked are its parked tasks.
	paused bool
	parked []ParkedTask
	// orphans are about finalizers of bindings that are gone.
	orphans []Reason
	// others are the other operators with the same instance name.
	instance string
	others   []string
	// runs are those of the hook, the latest first.
	runs []history.Run
	// rejected are the hooks that made the last reload fail, with the cause.
	rejected map[string]string
	// oneByOne is the place in the script because of which the hook runs once per context, or empty.
	oneByOne string
	// timeout is the default time limit of a run; 0 means none.
	timeout time.Duration
	now     time.Time
}

func why(a *API, r request) (answer, error) {
	h, err := a.hook(r)
	if err != nil {
		if e, ok := orphanedHook(a.Operator, r.name); ok {
			return answer{value: e, text: e.text(time.Now())}, nil
		}
		return answer{}, err
	}
	f := facts{
		hook: h, progress: a.Operator.Progress(h), queues: a.Operator.Queues(shownTasks), runs: a.History.Runs(h.Name),
		rejected: a.Operator.Rejected(), oneByOne: a.Operator.OneByOne(h), timeout: a.HookTimeout, now: time.Now(),
	}
	f.paused = slices.Contains(a.Operator.PausedHooks(), h.Name)
	f.parked = slices.DeleteFunc(a.Operator.Parked(), func(p ParkedTask) bool { return p.Hook != h.Name })
	f.orphans = orphansOf(a.Operator, h.Name)
	f.instance, f.others = a.Operator.Others()
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
	e.Reasons = slices.Concat(f.pauses(), f.inQueues(), f.givenUp(), f.starting(), f.watching(), f.finalizing(), f.listening(), f.notReloaded(), f.limited(), f.calling())
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
		return IsStandby
	case len(reasons) > 0 && reasons[0].Blocks:
		return IsBlocked
	case has(ByQueue):
		return IsQueued
	case has(ByEvents, ByClock, ByReviews, ByRequests):
		return IsListening
	}
	return IsIdle
}

// pauses covers pauses by a user.
func (f *facts) pauses() (reasons []Reason) {
	if f.paused {
		reasons = append(reasons, Reason{ByPause, true, "the hook is paused", "shell-operator hook resume " + f.hook.Name})
	}
	for _, q := range f.queues {
		if q.Paused && f.own(q.Name) {
			reasons = append(reasons, Reason{ByPause, true, fmt.Sprintf("queue %q is paused with %s", q.Name, count(q.Length, "task")), "shell-operator queue resume " + q.Name})
		}
	}
	return reasons
}

// own reports whether a binding of the hook names a queue.
func (f *facts) own(queue string) bool {
	for _, b := range f.hook.Bindings() {
		if b.Queue == queue {
			return true
		}
	}
	return false
}

// shownParked limits the parked tasks of a hook.
const shownParked = 5

// givenUp covers parked tasks. They block nothing.
func (f *facts) givenUp() (reasons []Reason) {
	for i, p := range f.parked {
		if i == shownParked {
			return append(reasons, Reason{ByParked, false, fmt.Sprintf("%d more parked tasks", len(f.parked)-i), "shell-operator parked list"})
		}
		reasons = append(reasons, Reason{ByParked, false, "parked task " + p.line(f.now) + ": " + oneLine(p.Error), "shell-operator parked retry " + p.ID + ", or parked drop"})
	}
	return reasons
}

// inLanes covers the lanes of a keyed queue whose first task is the hook's: those that failed by name, the others as a number.
func (f *facts) inLanes(q Queue) (reasons []Reason) {
	running, waiting := 0, 0
	for _, l := range q.Lanes {
		switch {
		case l.Task.Hook != f.hook.Name:
		case l.Phase == Running:
			running++
		case l.Phase == Sleeping && len(reasons) < shownParked:
			reasons = append(reasons, Reason{ByRetry, true, fmt.Sprintf("queue %q, key %q: %s has failed %s, the next attempt is in %s: %s", q.Name, l.Key,
				l.Task.Description, times(l.Failures), short(l.Left), oneLine(l.LastError)), "other keys are not held up: shell-operator runs " + f.hook.Name + " shows its last runs"})
		default:
			waiting++
		}
	}
	if running > 0 {
		reasons = append(reasons, Reason{ByItsOwnRun, false, fmt.Sprintf("queue %q: %s in flight, of %d at most", q.Name, count(running, "run"), q.Concurrency), ""})
	}
	if waiting > 0 {
		reasons = append(reasons, Reason{ByQueue, false, fmt.Sprintf("queue %q: %s wait for a free place, of %d in all", q.Name, count(waiting, "lane"), max(q.LaneCount, len(q.Lanes))), ""})
	}
	if more := q.LaneCount - len(q.Lanes); more > 0 && f.own(q.Name) {
		reasons = append(reasons, Reason{ByQueue, false, fmt.Sprintf("queue %q: %d more lanes wait, of any hook", q.Name, more), ""})
	}
	return reasons
}

// inQueues covers the queued tasks of the hook.
func (f *facts) inQueues() (reasons []Reason) {
	for _, q := range f.queues {
		if q.Keyed {
			reasons = append(reasons, f.inLanes(q)...)
			continue
		}
		at := slices.IndexFunc(q.Tasks, func(t Task) bool { return t.Hook == f.hook.Name })
		switch {
		case at == 0:
			reasons = append(reasons, f.first(q))
		case at > 0:
			reasons = append(reasons, f.behind(q, at))
		case q.Length > len(q.Tasks) && len(q.Tasks) > 0 && f.own(q.Name):
			reasons = append(reasons, Reason{ByQueue, false, fmt.Sprintf("queue %q: none of the first %d of its %d tasks is of the hook", q.Name, len(q.Tasks), q.Length), ""})
		}
	}
	return reasons
}

// first covers a task of the hook at the head of its queue.
func (f *facts) first(q Queue) Reason {
	text := fmt.Sprintf("queue %q: its task is the first of %d: %s", q.Name, q.Length, q.Tasks[0].Description)
	switch q.Phase {
	case Running:
		return f.running(q, text)
	case Sleeping:
		return Reason{ByRetry, true, fmt.Sprintf("%s; it has failed %s, the next attempt is in %s: %s", text, times(q.Failures), short(q.Left), oneLine(q.LastError)),
			"fix the hook or what it depends on: shell-operator runs " + f.hook.Name + " shows its last runs"}
	case Waiting:
		limit := ""
		if s := f.hook.Settings; s.MinInterval > 0 {
			limit = fmt.Sprintf(" (executionMinInterval %s, executionBurst %d)", s.MinInterval, s.Burst)
		}
		return Reason{ByRateLimit, true, text + "; it waits for the hook's rate limit" + limit, ""}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is shutting down", ""}
	}
	return Reason{ByQueue, false, text + "; it is about to start", ""}
}

func (f *facts) running(q Queue, text string) Reason {
	id := ""
	for _, r := range f.runs {
		if r.Status == history.Running && r.Queue == q.Name {
			id = " as " + r.ID
		}
	}
	text = fmt.Sprintf("%s; it has been running%s for %s", text, id, short(f.now.Sub(q.Since)))
	limit := f.timeout
	if own := f.hook.Settings.ExecutionTimeout; own != nil {
		limit = *own
	}
	if limit > 0 {
		return Reason{ByItsOwnRun, false, fmt.Sprintf("%s; it is ended after %s", text, limit), ""}
	}
	return Reason{ByItsOwnRun, false, text, "if it hangs, set settings.executionTimeout of the hook or --hook-timeout"}
}

// behind covers a task of the hook that has other tasks in front of it.
func (f *facts) behind(q Queue, at int) Reason {
	head := q.Tasks[0]
	text := fmt.Sprintf("queue %q: its task is number %d of %d, behind %s", q.Name, at+1, q.Length, head.Description)
	whose := "the hook " + head.Hook
	if head.Hook == f.hook.Name {
		whose = "the hook"
	}
	const separate = "give the binding a queue of its own"
	switch q.Phase {
	case Sleeping:
		return Reason{ByQueue, true, fmt.Sprintf("%s, which has failed %s, its next attempt is in %s: %s", text, times(q.Failures), short(q.Left), oneLine(q.LastError)),
			"fix " + whose + ", or " + separate}
	case Running:
		return Reason{ByQueue, true, fmt.Sprintf("%s, which has been running for %s", text, short(f.now.Sub(q.Since))), "to run independently of other hooks, " + separate}
	case Waiting:
		return Reason{ByQueue, true, text + ", which waits for its rate limit", separate}
	case Stopped:
		return Reason{ByShutdown, true, text + "; the operator is shutting down", ""}
	}
	return Reason{ByQueue, true, text, ""}
}

// starting covers the steps of the start that are not complete.
func (f *facts) starting() (reasons []Reason) {
	switch {
	case f.progress.Standby:
		return f.standby()
	case !f.progress.StartedUp:
		if len(f.hook.Kubernetes)+len(f.hook.Schedules) == 0 {
			return nil
		}
		return []Reason{f.startup()}
	case f.progress.Waiting != "":
		return f.enabling()
	case !f.progress.Ticking && len(f.hook.Schedules) > 0:
		return []Reason{{ByFirstRun, true, "its schedules start after the Synchronization runs queued before them", ""}}
	}
	return nil
}

// startup covers onStartup runs, of any hook, that have not succeeded.
func (f *facts) startup() Reason {
	r := Reason{ByStartup, true, "all onStartup runs of all hooks must succeed first", ""}
	for _, q := range f.queues {
		if q.Name == hook.MainQueue && len(q.Tasks) > 0 && q.Tasks[0].Hook != "" {
			r.Text += ", and this one has not: " + q.Tasks[0].Hook
			if q.Failures > 0 {
				r.Text += fmt.Sprintf(", which has failed %s: %s", times(q.Failures), oneLine(q.LastError))
				r.Hint = "fix that hook: shell-operator runs " + q.Tasks[0].Hook + " shows its last runs"
			}
		}
	}
	return r
}

// enabling covers kubernetes bindings that are not enabled: one reason for each request that fails now.
func (f *facts) enabling() (reasons []Reason) {
	for i, b := range f.bindings {
		for _, t := range b.Troubles {
			reasons = append(reasons, Reason{ByEnabling, true, fmt.Sprintf("binding %q is not enabled yet: %s", f.hook.Kubernetes[i].Name, oneLine(t)), ""})
		}
	}
	if len(reasons) == 0 {
		reasons = []Reason{{ByEnabling, true, f.progress.Waiting, ""}}
	}
	return reasons
}

// standby covers a replica that does not lead. Its webhooks and HTTP hooks are served nevertheless.
func (f *facts) standby() (reasons []Reason) {
	if f.progress.Waiting != "" {
		reasons = f.enabling()
	}
	if f.hook.OnStartup == nil && len(f.hook.Kubernetes)+len(f.hook.Schedules) == 0 {
		return reasons
	}
	r := Reason{ByReplica, true, fmt.Sprintf("the leader %q runs the hooks; this replica is a standby", f.progress.Leader), "run this there: shell-operator why " + f.hook.Name}
	if f.progress.Leader == "" {
		r.Text = "no replica leads; this one takes over when the Lease is free"
		r.Hint = "if that takes longer than --leader-election-lease-duration, search the log for: Cannot use the Lease"
	}
	return append(reasons, r)
}

// watching covers watches that fail, and events that wait for a Synchronization.
func (f *facts) watching() (reasons []Reason) {
	if !f.progress.StartedUp || f.progress.Waiting != "" {
		return nil
	}
	for i, b := range f.bindings {
		name := f.hook.Kubernetes[i].Name
		for _, t := range b.Troubles {
			reasons = append(reasons, Reason{ByWatch, true, fmt.Sprintf("binding %q receives no changes now: %s", name, oneLine(t)), ""})
		}
		if b.FilterFails > 0 {
			reasons = append(reasons, filterFails(&f.hook.Kubernetes[i], b))
		}
		if b.Complete && !b.Unlocked {
			reasons = append(reasons, Reason{ByFirstRun, true, fmt.Sprintf("binding %q: events wait (%d so far) until its Synchronization run has succeeded", name, b.Held), ""})
		}
	}
	return reasons
}

// filterFails covers a filter that fails. For an object whose filter always fails, the result is always null, so no change of
// it runs the hook.
func filterFails(k *hook.Kubernetes, b Binding) Reason {
	all := b.Objects.Len()
	consequence := "so nothing changes for these"
	if b.FilterFails == all {
		consequence = "so nothing ever changes"
	}
	return Reason{
		ByFilter, k.Modified && b.FilterFails == all,
		fmt.Sprintf("binding %q: its filter fails for %d of %s (%s), %s", k.Name, b.FilterFails, count(all, "object"), oneLine(b.FilterError), consequence),
		"fix the filter: the record \"jqFilter failed\" in the log names an object to try it with",
	}
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
			reasons = append(reasons, Reason{ByClock, false, fmt.Sprintf("binding %q (%s) is due at %s, in %s", s.Name, s.Crontab, next.Format(time.RFC3339), short(next.Sub(f.now))), ""})
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
		reasons = append(reasons, Reason{ByReviews, false, count(reviews, "webhook binding") + ": it runs for each request of the API server", ""})
	}
	if requests > 0 {
		reasons = append(reasons, Reason{ByRequests, false, count(requests, "HTTP binding") + ": it runs for each request of a client", ""})
	}
	if f.hook.OnStartup != nil && all == 1 {
		reasons = append(reasons, Reason{ByNoBindings, false, event.Startup.String() + " is its only binding: it runs once per start", ""})
	}
	return reasons
}

func sees(k *hook.Kubernetes, objects int) string {
	text := fmt.Sprintf("binding %q sees %s of kind %s", k.Name, count(objects, "object"), k.Kind)
	wanted := strings.Join(wire.EventsOf(k), ", ")
	switch {
	case wanted == "":
		return text + ", for snapshots only"
	case k.JQFilter != "":
		return text + " and waits for: " + wanted + ", where the result of its jqFilter changes"
	}
	return text + " and waits for: " + wanted
}

// notReloaded covers a reload that was rejected. Only the hooks that caused it show the cause.
func (f *facts) notReloaded() []Reason {
	const active = "its previous configuration stays active, because the last reload was rejected: "
	if len(f.rejected) == 0 {
		return nil
	}
	if own := f.rejected[f.hook.Name]; own != "" {
		return []Reason{{ByReload, false, active + oneLine(own), "fix the hook: shell-operator lint shows the place, the log has the whole error"}}
	}
	return []Reason{{ByReload, false, active + "shell-operator status shows the cause", ""}}
}

// limited covers a hook that gets one context per run without having set it.
func (f *facts) limited() []Reason {
	if f.oneByOne == "" {
		return nil
	}
	return []Reason{{ByScript, false, "it runs once per context, because its script reads event data of the first context only: " + f.oneByOne,
		"settings.contextsPerRun: 0 of the hook delivers all contexts of a run"}}
}

// calling covers the calls of kubectl by the last run that made any.
func (f *facts) calling() []Reason {
	i := slices.IndexFunc(f.runs, func(r history.Run) bool { return len(r.Kubectl) > 0 })
	if i < 0 {
		return nil
	}
	return []Reason{{ByKubectl, false, fmt.Sprintf("run %s called kubectl: %s", f.runs[i].ID, strings.Join(kubectlCalls(&f.runs[i]), "; ")), ""}}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func short(d time.Duration) string { return history.Duration(d.Round(100 * time.Millisecond)).String() }
