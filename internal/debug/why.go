package debug

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// why explains a hook.
func (a *API) why(r request) (answer, error) {
	h, err := a.o.Hooks.find(r)
	if err != nil {
		refused, unknown := (*Problem)(nil), false
		unknown = errors.As(err, &refused) && refused.Code == unknownHook
		for _, t := range a.Troubles() {
			if unknown && t.Run != "" && t.Hooks[0] == r.name { // of a hook that a reload has removed
				e := explain(r.name, []Reason{{t.Kind, true, t.Problem, t.Hint}}, a.o.History.Runs(r.name))
				return answer{value: e, text: e.text(time.Now())}, nil
			}
		}
		if unknown && strings.Contains(r.name, "/") {
			refused.Next += "; shell-operator why --object " + r.name + " explains an object"
		}
		return answer{}, err
	}
	now := time.Now()
	at := &Moment{Time: now, tasks: shownTasks}
	reasons := a.deciding(h, at, a.Troubles())
	e := explain(h.Name, reasons, a.o.History.Runs(h.Name))
	return answer{value: e, text: e.text(now)}, nil
}

// deciding are the reasons of which the verdict is made: the troubles of the hook, and what topics know of it.
func (a *API) deciding(h *hook.Hook, at *Moment, troubles []Trouble) (all []Reason) {
	for i := range troubles {
		if t := &troubles[i]; t.concerns(h) {
			all = append(all, t.reason(h))
		}
	}
	for _, t := range *a.topics.Load() {
		if t.Reasons != nil {
			all = append(all, t.Reasons(h, at)...)
		}
	}
	return all
}

// explain is a pure function, so that every case has a row in a test. Runs are the runs of the hook, the latest first.
func explain(hook string, reasons []Reason, runs []history.Run) Explanation {
	slices.SortStableFunc(reasons, func(a, b Reason) int { return rank(a.Blocks) - rank(b.Blocks) })
	e := Explanation{Hook: hook, Verdict: verdict(reasons), Reasons: reasons}
	if len(runs) > 0 {
		e.last, e.LastRun = &runs[0], runs[0].ID
	}
	return e
}

// blocked are the verdicts of blocking reasons: the first one that is there counts. Others are IsBlocked.
var blocked = []struct {
	by TroubleKind
	is Verdict
}{
	{IsPaused, "paused"}, {ByStartup, "starting"}, {ByEnabling, "not enabled"}, {ByReplica, IsStandby}, {ByRetry, "failing"},
	{InRegistration, notRegistered}, {InReviews, reviewsFail}, {InWatch, watchFailing}, {InWorker, "worker failing"},
	{ByRateLimit, "rate limit"}, {ByFirstRun, "synchronizing"}, {InQueue, IsQueued}, {InParked, "parked"},
}

// verdict is the state of a hook in a word or two, for why, hooks, status and the console.
func verdict(reasons []Reason) Verdict {
	has := func(blocks bool, kinds ...TroubleKind) bool {
		return slices.ContainsFunc(reasons, func(r Reason) bool { return (r.Blocks || !blocks) && slices.Contains(kinds, r.Kind) })
	}
	if has(false, ByItsOwnRun) {
		return IsRunning
	}
	for _, b := range blocked {
		if has(true, b.by) {
			return b.is
		}
	}
	switch {
	case slices.ContainsFunc(reasons, func(r Reason) bool { return r.Blocks }):
		return IsBlocked
	case has(false, InQueue):
		return IsQueued
	case has(false, ByEvents, ByClock, InReviews, ByRequests):
		return IsReady
	}
	return IsIdle
}
