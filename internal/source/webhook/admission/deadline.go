package admission

import (
	"net/url"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// longestTimeout is the maximum of timeoutSeconds.
const longestTimeout = 30 * time.Second

// timeLimit is how long a review may take. The API server sends its timeout with each request; a tenth of it is kept for
// the network.
func timeLimit(query url.Values, b *hook.Admission) time.Duration {
	timeout := 10 * time.Second
	if b.TimeoutSeconds > 0 {
		timeout = time.Duration(b.TimeoutSeconds) * time.Second
	}
	if asked, err := time.ParseDuration(query.Get("timeout")); err == nil && asked > 0 {
		timeout = min(asked, longestTimeout)
	}
	return timeout - min(timeout/10, time.Second)
}
