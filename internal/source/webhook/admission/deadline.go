package admission

import (
	"net/url"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// longestTimeout is the longest that the API knows.
const longestTimeout = 30 * time.Second

// patience is how long a run may take, so that its answer comes in time. The API server says with each request how long
// it waits; part of that is for the way there and back.
func patience(query url.Values, b *hook.Admission) time.Duration {
	timeout := 10 * time.Second
	if b.TimeoutSeconds > 0 {
		timeout = time.Duration(b.TimeoutSeconds) * time.Second
	}
	if asked, err := time.ParseDuration(query.Get("timeout")); err == nil && asked > 0 {
		timeout = min(asked, longestTimeout)
	}
	return timeout - min(timeout/10, time.Second)
}
