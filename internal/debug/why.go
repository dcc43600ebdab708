package debug

import (
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// why explains a hook, or one that is gone and has left something.
func (a *API) why(r request) (answer, error) {
	now := time.Now()
	h, err := a.o.Hooks.find(r)
	if err != nil {
		name := r.spellings()[0]
		left := a.reasons(func(t *Topic) []Reason { return t.left(name) })
		if len(left) == 0 {
			return answer{}, err
		}
		e := Explanation{Hook: name, Verdict: IsGone, Reasons: left}
		return answer{value: e, text: e.text(now)}, nil
	}
	e := explain(h.Name, a.reasons(func(t *Topic) []Reason { return t.reasons(h, now) }), a.o.History.Runs(h.Name))
	return answer{value: e, text: e.text(now)}, nil
}

// explain is a pure function, so that every case has a row in a test. Runs are those of the hook, the latest first.
func explain(hook string, reasons []Reason, runs []history.Run) Explanation {
	slices.SortStableFunc(reasons, func(a, b Reason) int {
		switch {
		case a.Blocks == b.Blocks:
			return 0
		case a.Blocks:
			return -1
		}
		return 1
	})
	e := Explanation{Hook: hook, Verdict: verdict(reasons), Reasons: reasons}
	if len(runs) > 0 {
		e.last, e.LastRun = &runs[0], runs[0].ID
	}
	return e
}

func (t *Topic) reasons(h *hook.Hook, now time.Time) []Reason {
	if t.Reasons == nil {
		return nil
	}
	return t.Reasons(h, now)
}

func (t *Topic) left(hook string) []Reason {
	if t.Left == nil {
		return nil
	}
	return t.Left(hook)
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
