package conversion

import (
	"log/slog"
	"sync"
	"time"
)

// An API server that cannot convert what it stores asks again, ten times a second for each version. Of equal failures
// one in quietFor is logged. No more than manyFailures are remembered.
const (
	quietFor     = time.Minute
	manyFailures = 100
)

// failureLog logs failures.
type failureLog struct {
	to *slog.Logger

	mu     sync.Mutex // guards what follows
	logged map[failureKey]*loggedFailure
}

type failureKey struct{ crd, message string }

type loggedFailure struct {
	at time.Time
	// since is how often it came after that.
	since int
}

func newFailureLog(to *slog.Logger) *failureLog {
	return &failureLog{to: to, logged: map[failureKey]*loggedFailure{}}
}

// log logs a failure by its message, with all that is known of its reason.
func (l *failureLog) log(crd, uid, message string, reason error) {
	again, due := l.due(failureKey{crd, message}, time.Now())
	if !due {
		return
	}
	fields := []any{"crd", crd, "uid", uid, "error", reason.Error()}
	if again > 0 {
		fields = append(fields, "again", again)
	}
	l.to.Error("conversion failed", fields...)
}

// due tells whether to log a failure, and how often it came without.
func (l *failureLog) due(key failureKey, now time.Time) (again int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.logged[key]
	if last != nil && now.Sub(last.at) < quietFor {
		last.since++
		return 0, false
	}
	if last != nil {
		again = last.since
	} else if len(l.logged) >= manyFailures {
		clear(l.logged)
	}
	l.logged[key] = &loggedFailure{at: now}
	return again, true
}
