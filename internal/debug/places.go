package debug

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Requests that are open at one time. Over the address, which may be open to the network, all count; on the socket, only streams: whoever
// can open it may end the operator, too. A stream has a buffer of history.MaxWaitingBytes at most, so all together hold 28 MiB at most.
const (
	addressPlaces, addressPlacesEach = 32, 8
	userStreams, hookStreams         = 64, 16
)

// unread is how long a client of the address may leave an answer unread before it is cut off.
const unread = time.Minute

// places bounds requests that are open at one time, in sum and for each client.
type places struct {
	sum, each int

	mu  sync.Mutex
	all int
	of  map[string]int
}

func newPlaces(sum, each int) *places { return &places{sum: sum, each: each, of: map[string]int{}} }

// take returns how to leave the place, or an error with the next step.
func (p *places) take(client, what, hint string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[client] >= p.each:
		return nil, refuse(http.StatusTooManyRequests, "%s has %d open %s, which is the most for a client", client, p.each, what).hint("%s", hint)
	case p.all >= p.sum:
		return nil, refuse(http.StatusTooManyRequests, "%d %s are open, which is the most for all clients", p.sum, what).hint("%s", hint)
	}
	p.all++
	p.of[client]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.of[client]--; p.of[client] == 0 {
			delete(p.of, client)
		}
	}, nil
}

// enter takes the place that a request needs, if it needs one.
func (a *API) enter(rt *Route, w http.ResponseWriter, r *http.Request) (leave func(), err error) {
	c, socket := r.Context().Value(caller{}).(client)
	switch {
	case !socket:
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		readInTime(w, r)
		return a.address.take(host, "requests", "end some, or use the debug socket: kubectl exec")
	case rt.stream == nil:
		return func() {}, nil
	case c.hook:
		return a.hookStreams.take("a hook", "streams", "end the tails that hooks have started")
	}
	return a.userStreams.take("the user "+c.uid, "streams", "close pages of consoles, and end tails that nobody reads")
}

// readInTime limits the time for which a client of the address may leave what is written next unread.
func readInTime(w http.ResponseWriter, r *http.Request) {
	if _, socket := r.Context().Value(caller{}).(client); !socket {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(unread)) // tests have writers without one
	}
}
