package debug

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Requests that are open at one time. Over the address, which may be open to the network, all count; on the socket, only streams: who
// can open it may end the operator, too. A stream has history.MaxWaitingBytes at most that wait, and as many that it writes: 56 MiB for
// all together.
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
func (a *API) enter(rt *Route, r *http.Request) (leave func(), err error) {
	c, socket := r.Context().Value(caller{}).(client)
	switch {
	case !socket:
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return a.address.take(host, "requests", "end some, or use the debug socket: kubectl exec")
	case rt.stream == nil:
		return func() {}, nil
	case c.hook:
		return a.hookStreams.take("a hook", "streams", "end the tails that hooks have started")
	}
	return a.userStreams.take("the user "+c.uid, "streams", "close pages of consoles, and end tails that are not read")
}

// timely is the answer to a client of the address. Each piece of it has to be read in time, not all of it: over a slow connection, a large
// answer takes longer.
type timely struct{ http.ResponseWriter }

// pieceBytes are those of a piece.
const pieceBytes = 64 << 10

func newTimely(w http.ResponseWriter) timely {
	t := timely{w}
	t.extend() // for what is written without an answer, as headers
	return t
}

func (t timely) extend() {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(time.Now().Add(unread)) // tests have writers without one
}

// Write implements http.ResponseWriter.
func (t timely) Write(text []byte) (written int, err error) {
	for {
		piece := text[written:min(len(text), written+pieceBytes)]
		t.extend()
		n, err := t.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(text) {
			return written, err
		}
	}
}

// Unwrap gives http.ResponseController access to the connection.
func (t timely) Unwrap() http.ResponseWriter { return t.ResponseWriter }
