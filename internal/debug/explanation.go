package debug

import (
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Explanation says what a hook waits for.
type Explanation struct {
	Hook string `json:"hook"`
	// Verdict is one of the words below.
	Verdict Verdict `json:"verdict"`
	// Reasons are sorted: what holds the hook up comes first.
	Reasons []Reason `json:"reasons"`
	// LastRun is the id of the last run that is known.
	LastRun string `json:"lastRun,omitempty"`

	last *history.Run
}

// Verdict is the answer in short.
type Verdict string

const (
	// IsHeldUp hooks would run, but something keeps them from it.
	IsHeldUp Verdict = "held up"
	// IsRunning hooks run now.
	IsRunning Verdict = "running"
	// IsNext hooks have a task that nothing keeps from running.
	IsNext Verdict = "next"
	// IsStandingBy hooks run in another replica.
	IsStandingBy Verdict = "standing by"
	// IsListening hooks have nothing to do until something happens.
	IsListening Verdict = "waiting for events"
	// IsDeaf hooks have nothing more to wait for.
	IsDeaf Verdict = "nothing to wait for"
)

// Reason is one thing that is true of a hook.
type Reason struct {
	Kind ReasonKind `json:"kind"`
	// Blocks tells that the hook would run, or see more, without it.
	Blocks bool   `json:"blocks"`
	Text   string `json:"text"`
	// Mend is what to do about it.
	Mend string `json:"mend,omitempty"`
}

// ReasonKind sorts reasons.
type ReasonKind string

const (
	ByReplica    ReasonKind = "replica"
	ByStartup    ReasonKind = "startup"
	ByEnabling   ReasonKind = "enabling"
	ByWatch      ReasonKind = "watch"
	ByFilter     ReasonKind = "filter"
	ByFirstRun   ReasonKind = "synchronization"
	ByRetry      ReasonKind = "retry"
	ByQueue      ReasonKind = "queue"
	ByRateLimit  ReasonKind = "rate limit"
	ByShutdown   ReasonKind = "shutdown"
	ByItsOwnRun  ReasonKind = "run"
	ByEvents     ReasonKind = "events"
	ByClock      ReasonKind = "clock"
	ByReviews    ReasonKind = "reviews"
	ByRequests   ReasonKind = "requests"
	ByNoBindings ReasonKind = "no bindings"
	ByReload     ReasonKind = "reload"
)

func (e *Explanation) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", e.Hook, e.Verdict)
	for _, r := range e.Reasons {
		b.WriteString("- " + r.Text + "\n")
		if r.Mend != "" {
			b.WriteString("  " + r.Mend + "\n")
		}
	}
	if e.last != nil {
		fmt.Fprintf(&b, "last run: %s, %s ago, %s (shell-operator runs show %s)\n", e.last.ID, ago(now.Sub(e.last.Started)), e.last.Outcome(), e.last.ID)
	} else {
		b.WriteString("no run is known: it has not run since the operator was started, or that is long ago\n")
	}
	return b.String()
}
