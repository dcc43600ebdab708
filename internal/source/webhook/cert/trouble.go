package cert

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// trouble logs a failing activity when it begins to fail, when the kind of error changes and when it succeeds again.
type trouble struct{ logged logonce.Dedup }

func (t *trouble) log(log *slog.Logger, fails, succeeds string, err error) {
	if err == nil {
		if t.logged.End("") {
			log.Info(succeeds)
		}
		return
	}
	if _, due := t.logged.Due("", kindOf(err)); due {
		log.Warn(fails, "error", err.Error())
	}
}

// kindOf groups errors whose texts differ from attempt to attempt.
func kindOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "forbidden"
	case errors.As(err, new(*foreignError)):
		return "foreign"
	case unreachable(err):
		return "unreachable"
	}
	return "other"
}

func unreachable(err error) bool {
	return errors.As(err, new(net.Error)) || errors.As(err, new(*url.Error))
}

// delay grows with each attempt that fails. Its zero value is for the first one.
type delay time.Duration

const minDelay, maxDelay = delay(time.Second), delay(time.Minute)

// next is the delay before the next attempt, with jitter for replicas that start together.
func (d *delay) next() time.Duration {
	*d = min(max(2**d, minDelay), maxDelay)
	return time.Duration(*d/2 + rand.N(*d/2))
}
