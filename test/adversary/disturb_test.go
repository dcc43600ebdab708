package adversary

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// disturbance is what an adversary does during one run of a workload. Its methods are called concurrently.
type disturbance interface {
	// write answers a write of the operator. send passes it on.
	write(r *replica, p place, q *request, send func() *answer) *answer
	// read answers a get, list or watch.
	read(r *replica, q *request, rw http.ResponseWriter, req *http.Request, next http.Handler)
	// change does a step of the script.
	change(w *world, step int, do func())
	// end ends it, if it has not ended by itself.
	end(w *world)
	// missed is why it has not happened; empty if it has.
	missed() string
}

// nothing disturbs nothing; others embed it.
type nothing struct{}

func (nothing) write(_ *replica, _ place, _ *request, send func() *answer) *answer { return send() }
func (nothing) read(_ *replica, _ *request, rw http.ResponseWriter, req *http.Request, next http.Handler) {
	next.ServeHTTP(rw, req)
}
func (nothing) change(_ *world, _ int, do func()) { do() }
func (nothing) end(*world)                        {}
func (nothing) missed() string                    { return "" }

// atPlace is a disturbance of one write.
type atPlace struct {
	nothing
	at   place
	once sync.Once
	met  atomic.Bool
}

// first returns true for the first request of the place.
func (d *atPlace) first(p place) (first bool) {
	if p == d.at {
		d.once.Do(func() { first = true; d.met.Store(true) })
	}
	return first
}

func (d *atPlace) missed() string {
	if d.met.Load() {
		return ""
	}
	return "there was no write " + d.at.String()
}

// loseProcess ends the process at a write, before the request leaves, or after it was answered and before the process sees that.
type loseProcess struct {
	atPlace
	after bool
	// stop stops the process until another one has taken over, instead of a kill. Then it continues, and has to end by itself.
	stop bool
}

func (d *loseProcess) write(r *replica, p place, _ *request, send func() *answer) *answer {
	if !d.first(p) {
		return send()
	}
	var a *answer
	if d.after {
		a = send()
	}
	if !d.stop {
		r.kill()
		return a
	}
	r.expected.Store(true)
	stopped := time.Now()
	r.op.Signal(syscall.SIGSTOP)
	records := r.op.Records()
	if led := slices.IndexFunc(records, leads); led >= 0 &&
		!r.w.await(patience, func() bool { return r.w.takesOver(r, records[led].Fields["shard"], stopped) }) {
		r.w.t.Error("no other replica takes over")
	}
	r.op.Signal(syscall.SIGCONT)
	return nil
}

func leads(r testenv.Record) bool { return r.Has(servesShard) || r.Has("This replica runs the hooks") }

// takesOver reports whether another replica has begun to run hooks, or to serve the shard, since then.
func (w *world) takesOver(from *replica, shard string, since time.Time) bool {
	return slices.ContainsFunc(w.replicas(), func(r *replica) bool {
		return r != from && slices.ContainsFunc(r.op.Records(), func(record testenv.Record) bool {
			return leads(record) && record.Fields["shard"] == shard && record.At.After(since)
		})
	})
}

// refuse answers the first two requests of a place with errors.
type refuse struct {
	atPlace
	with  [2]int
	mu    sync.Mutex
	sofar int
}

var reasons = map[int]string{http.StatusConflict: "Conflict", http.StatusInternalServerError: "InternalError",
	http.StatusTooManyRequests: "TooManyRequests", http.StatusForbidden: "Forbidden"}

func (d *refuse) write(_ *replica, p place, _ *request, send func() *answer) *answer {
	if p != d.at {
		return send()
	}
	d.mu.Lock()
	n := d.sofar
	d.sofar++
	d.mu.Unlock()
	if n >= len(d.with) {
		return send()
	}
	return refusal(d.with[n], reasons[d.with[n]], "the adversary refuses")
}

func (d *refuse) missed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sofar == 0 {
		return "there was no write " + d.at.String()
	}
	if d.sofar <= len(d.with) {
		return fmt.Sprintf("the write %s was not repeated after %d refusals", d.at, d.sofar)
	}
	return ""
}
