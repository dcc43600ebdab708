package debug

import (
	"net/http"
	"time"
)

// Requests that are open at one time. Over the address, which may be open to the network, all count; on the socket, only streams: who
// can open it may end the operator, too. A stream has history.MaxWaitingBytes at most that wait, and as many that it writes: 56 MiB for
// all together.
const addressPlaces, userStreams, hookStreams = 32, 64, 16

// unread is how long a client of the address may take to read an answer, or what has come of a stream, before it is cut off.
const unread = 10 * time.Minute

// places bounds requests that are open at one time.
type places chan struct{}

// take returns how to leave the place, or an error with the next step.
func (p places) take(what, hint string) (leave func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	default:
		return nil, refuse(http.StatusTooManyRequests, "%d %s are open, which is the most", cap(p), what).hint("%s", hint)
	}
}

// enter takes the place that a request needs, if it needs one.
func (a *API) enter(rt *Route, r *http.Request) (leave func(), err error) {
	c, socket := r.Context().Value(caller{}).(client)
	switch {
	case !socket:
		return a.address.take("requests", "end some, or use the debug socket: kubectl exec")
	case rt.stream == nil:
		return func() {}, nil
	case c.hook:
		return a.hookStreams.take("streams of hooks", "end the tails that hooks have started")
	}
	return a.userStreams.take("streams", "close pages of consoles, and end tails that are not read")
}
