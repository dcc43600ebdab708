package cert

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// trouble is a kind of error that has been logged. A change of kind is worth a log line, the tenth refused connection
// is not.
type trouble string

const (
	noTrouble    trouble = ""
	forbidden    trouble = "forbidden"
	foreign      trouble = "foreign"
	unreachable  trouble = "unreachable"
	otherTrouble trouble = "other"
)

func kindOf(err error) trouble {
	var foreignErr *foreignError
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return noTrouble
	case apierrors.IsForbidden(err):
		return forbidden
	case errors.As(err, &foreignErr):
		return foreign
	case errors.As(err, &netErr), errors.As(err, &urlErr):
		return unreachable
	}
	return otherTrouble
}

// tell logs that trouble begins, changes or ends.
func (t *trouble) tell(log *slog.Logger, begins, ends string, err error) {
	before := *t
	*t = kindOf(err)
	switch {
	case before == *t:
	case err == nil:
		log.Info(ends)
	default:
		log.Warn(begins, "error", err.Error())
	}
}

// delay grows with each attempt that fails. Its zero value is for the first one.
type delay time.Duration

const minDelay, maxDelay = delay(time.Second), delay(time.Minute)

// next is how long to wait before another attempt. Replicas do not come all at once.
func (d *delay) next() time.Duration {
	*d = min(max(2**d, minDelay), maxDelay)
	return time.Duration(*d/2 + rand.N(*d/2))
}
