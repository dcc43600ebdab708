package debug

import (
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Explanation is the answer of why: what a hook waits for.
type Explanation struct {
	Hook    string  `json:"hook"`
	Verdict Verdict `json:"verdict"`
	// Reasons are sorted: those that block the hook come first.
	Reasons []Reason `json:"reasons"`
	// LastRun is the id of the last known run.
	LastRun string `json:"lastRun,omitempty"`

	last *history.Run
}

// Verdict is the state of a hook in a word or two.
type Verdict string

const (
	// IsBlocked hooks would run, but something prevents it that has no verdict of its own.
	IsBlocked Verdict = "blocked"
	// IsRunning hooks run now.
	IsRunning Verdict = "running"
	// IsQueued hooks have a task that is about to start, or waits for another one.
	IsQueued Verdict = "queued"
	// IsStandby hooks run on another replica.
	IsStandby Verdict = "standby"
	// IsReady hooks run when an event arrives.
	IsReady Verdict = "ready"
	// IsIdle hooks have no events left to wait for.
	IsIdle Verdict = "idle"
)

// Reason is one fact about a hook.
type Reason struct {
	Kind TroubleKind `json:"kind"`
	// Blocks reports that the hook would run, run sooner, or receive more, without it.
	Blocks bool   `json:"blocks"`
	Text   string `json:"text"`
	// Hint is the next step.
	Hint string `json:"hint,omitempty"`
}

// Kinds of reasons that are no troubles.
const (
	ByReplica    TroubleKind = "replica"
	ByStartup    TroubleKind = "startup"
	ByEnabling   TroubleKind = "enabling"
	ByFirstRun   TroubleKind = "synchronization"
	ByRetry      TroubleKind = "retry"
	ByRateLimit  TroubleKind = "rate limit"
	ByRequeue    TroubleKind = "requeue"
	ByShutdown   TroubleKind = "shutdown"
	ByItsOwnRun  TroubleKind = "run"
	ByEvents     TroubleKind = "events"
	ByClock      TroubleKind = "clock"
	ByRequests   TroubleKind = "requests"
	ByNoBindings TroubleKind = "no bindings"
)

func (e *Explanation) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", e.Hook, e.Verdict)
	for _, r := range e.Reasons {
		b.WriteString("- " + r.Text + "\n")
		if r.Hint != "" {
			b.WriteString("  " + r.Hint + "\n")
		}
	}
	if e.last != nil {
		fmt.Fprintf(&b, "last run: %s, %s ago, %s (shell-operator runs show %s)\n", e.last.ID, ago(now.Sub(e.last.Started)),
			e.last.Summary()+e.last.Awaited(), e.last.ID)
	} else {
		b.WriteString("last run: none since the operator started, or no longer remembered\n")
	}
	return b.String()
}
