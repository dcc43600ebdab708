package adversary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// now is the newest resource version of the API server.
func (w *world) now() uint64 {
	w.t.Helper()
	list, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		List(context.Background(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.t.Error(err)
		return 0
	}
	return version(list.GetResourceVersion())
}

func version(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64)
	return v
}

// watches are those that are open, and can be broken off.
type watches struct {
	nothing
	mu   sync.Mutex
	last int
	// open has what ends each of them.
	open map[int]openWatch
}

type openWatch struct {
	of  *request
	end context.CancelFunc
}

// follow passes a watch on until it is broken off.
func (d *watches) follow(q *request, rw http.ResponseWriter, req *http.Request, next http.Handler) {
	ctx, broken := context.WithCancel(req.Context())
	defer broken()
	d.mu.Lock()
	d.last++
	n := d.last
	if d.open == nil {
		d.open = map[int]openWatch{}
	}
	d.open[n] = openWatch{q, broken}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.open, n)
		d.mu.Unlock()
		if ctx.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	next.ServeHTTP(rw, req.WithContext(ctx))
}

// breakOff ends watches.
func (d *watches) breakOff(those func(*request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.open {
		if those(w.of) {
			w.end()
		}
	}
}

// unseen hides the state between two changes: no watch and no list of the resource is answered from before the first one until the second
// one is stored, and then the history between is gone.
type unseen struct {
	watches
	second          int
	group, resource string
	// seen is closed when the second change is stored; stored is its version.
	seen   chan struct{}
	stored uint64
	hiding bool
}

// hides compares the group of the script, of which a plan may have its own.
func (d *unseen) hides(q *request) bool {
	return q.resource == d.resource && strings.HasSuffix(q.group, d.group)
}

func (d *unseen) change(w *world, step int, do func()) {
	switch step {
	case d.second - 1:
		d.mu.Lock()
		d.hiding = true
		d.mu.Unlock()
		d.breakOff(d.hides)
		do()
	case d.second:
		do()
		d.stored = w.now()
		close(d.seen)
	default:
		do()
	}
}

func (d *unseen) read(_ *replica, q *request, rw http.ResponseWriter, req *http.Request, next http.Handler) {
	d.mu.Lock()
	hiding := d.hiding
	d.mu.Unlock()
	if q.verb == "get" || !d.hides(q) {
		next.ServeHTTP(rw, req)
		return
	}
	if hiding {
		select {
		case <-d.seen:
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
		if from := version(q.query.Get("resourceVersion")); q.verb == "watch" && from != 0 && from < d.stored {
			refusal(http.StatusGone, "Expired", "the adversary has forgotten what was before").send(rw)
			return
		}
	}
	d.follow(q, rw, req, next)
}

// late lets watches lag behind, as they do when they come from an API server whose cache does, while reads and lists without a version
// are fresh.
type late struct {
	watches
	at place
	// how is restart: the process is killed after the write; interrupt: its watches are broken off; back: a bookmark is older than what was
	// seen, and the watches are broken off again.
	how string
	// moment is the last version that is visible while late; present is closed when it returns.
	before, moment uint64
	is             bool
	present        chan struct{}
	ends           sync.Once
}

// lag is how long the past lasts.
const lag = 2 * time.Second

func (d *late) change(w *world, _ int, do func()) {
	v := w.now()
	d.mu.Lock()
	d.before = v
	d.mu.Unlock()
	do()
}

func (d *late) write(r *replica, p place, _ *request, send func() *answer) *answer {
	a := send()
	d.mu.Lock()
	begins := p == d.at && !d.is
	if begins {
		d.is, d.moment = true, d.before
	}
	d.mu.Unlock()
	if !begins {
		return a
	}
	if d.how == "restart" {
		r.kill()
	} else {
		d.breakOff(func(*request) bool { return true })
	}
	time.AfterFunc(lag, func() {
		d.end(r.w)
		if d.how == "back" {
			d.breakOff(func(*request) bool { return true })
		}
	})
	return a
}

func (d *late) end(*world) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.is {
		d.ends.Do(func() { close(d.present) })
	}
}

func (d *late) missed() string {
	if d.is {
		return ""
	}
	return "there was no write " + d.at.String()
}

// visible waits until a version is; it returns false if the request ends before.
func (d *late) visible(ctx context.Context, v uint64) bool {
	d.mu.Lock()
	hidden := d.is && v > d.moment
	d.mu.Unlock()
	if !hidden {
		return true
	}
	select {
	case <-d.present:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *late) read(_ *replica, q *request, rw http.ResponseWriter, req *http.Request, next http.Handler) {
	d.mu.Lock()
	is, moment := d.is, d.moment
	d.mu.Unlock()
	select {
	case <-d.present:
		is = false
	default:
	}
	wanted := q.query.Get("resourceVersion")
	switch {
	case q.verb == "watch":
		out := &events{ResponseWriter: rw, ctx: req.Context(), late: d}
		if is && d.how == "back" {
			out.first = fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"apiVersion":"%s","kind":"%s","metadata":{"resourceVersion":"%d"}}}`+"\n",
				"meta.k8s.io/v1", "PartialObjectMetadata", moment)
		}
		d.follow(q, out, req, next)
		return
	case is && wanted != "" && version(wanted) > moment && q.query.Get("resourceVersionMatch") != "Exact":
		refusal(http.StatusGatewayTimeout, "Timeout", fmt.Sprintf("Too large resource version: %s, current: %d", wanted, moment)).send(rw)
		return
	case is && wanted != "" && q.verb == "list" && q.query.Get("resourceVersionMatch") != "Exact":
		query := req.URL.Query()
		query.Set("resourceVersion", fmt.Sprint(moment))
		query.Set("resourceVersionMatch", "Exact")
		req.URL.RawQuery = query.Encode()
	}
	next.ServeHTTP(rw, req)
}

// slow delays the events of watches after the first write: each event, or the events of a moment.
type slow struct {
	nothing
	by    time.Duration
	once  bool
	began sync.Once
	late  atomic.Bool
}

func (d *slow) write(r *replica, _ place, _ *request, send func() *answer) *answer {
	d.began.Do(func() {
		delay := func(by time.Duration) {
			for _, r := range r.w.replicas() {
				r.gateway.Make(testenv.Trouble{WatchDelay: by})
			}
		}
		delay(d.by)
		if d.late.Store(true); d.once {
			time.AfterFunc(time.Second, func() { delay(0) })
		}
	})
	return send()
}

func (d *slow) missed() string {
	if d.late.Load() {
		return ""
	}
	return "there was no write"
}

// events passes the events of a watch on when they are visible.
type events struct {
	http.ResponseWriter
	ctx  context.Context
	late *late
	// first is written before all others.
	first, rest []byte
}

func (e *events) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *events) WriteHeader(status int) {
	e.ResponseWriter.WriteHeader(status)
	if e.first != nil && status == http.StatusOK {
		_, _ = e.ResponseWriter.Write(e.first)
		_ = http.NewResponseController(e.ResponseWriter).Flush()
	}
}

func (e *events) Write(b []byte) (int, error) {
	e.rest = append(e.rest, b...)
	for {
		line, rest, complete := bytes.Cut(e.rest, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		var event struct{ Object object }
		_ = json.Unmarshal(line, &event)
		if !e.late.visible(e.ctx, version(event.Object.Metadata.ResourceVersion)) {
			return 0, e.ctx.Err()
		}
		if _, err := e.ResponseWriter.Write(append(line[:len(line):len(line)], '\n')); err != nil {
			return 0, err
		}
		e.rest = rest
	}
}
