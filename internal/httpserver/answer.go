package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Call is a request that a hook answers. All fields are required.
type Call[A any] struct {
	// Limits are the limits of the handler, Key is the hook, or what else they count by.
	Limits *Limits
	Key    any
	// Limit is the time limit of the request.
	Limit time.Duration
	// MaxBytes limits the body.
	MaxBytes int64
	// Parse reads the body, and returns the run; none if there is nothing to run. Its errors go to Write.
	Parse func(*Body) (run func(context.Context) (A, error), err error)
	// Write sends the response. It is called once: with what Parse or the run returned, a *Refusal, or an error that is ErrGone, ErrSlots or
	// a Late.
	Write func(A, error)
	// Log has the names of the hook and its binding.
	Log *slog.Logger
}

// Refusal is a response without a run.
type Refusal struct {
	Status int
	// Text is for the client.
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// Refuse returns a *Refusal.
func Refuse(status int, format string, args ...any) error {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

var (
	// ErrGone is the error of a request whose client has disconnected.
	ErrGone = errors.New("the client has disconnected")
	// ErrSlots is the error of a request that got no slot in time; it is a Late, too.
	ErrSlots = errors.New("all slots of the hook were taken")
)

// Late is the error of a request that reached its time limit, which is its value.
type Late time.Duration

func (l Late) Error() string {
	return fmt.Sprintf("the hook gave no answer within %s: make it faster, or raise its timeout", time.Duration(l))
}

type runsKey struct{}

// CountRuns returns a request whose run is counted by a group, and not by the Limits: it may end later than the request.
func CountRuns(r *http.Request, by *sync.WaitGroup) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), runsKey{}, by))
}

// Answer answers a request by a run of its hook:
//
//   - A request above the limits is refused immediately. Its body is read when there is memory for it, it runs when there is a slot.
//   - The response is sent when the run has ended, the time limit is reached, or the client has disconnected, whichever comes first: ending
//     a process takes time. The run keeps its slot and its bytes until it has ended, and its context ends with the request.
//   - A panic of the run is its failure.
func Answer[A any](w http.ResponseWriter, r *http.Request, c Call[A]) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), c.Limit, Late(c.Limit))
	defer cancel()
	var answer A
	limiter := c.Limits.of(c.Key)
	entered := limiter.enter()
	if entered == nil {
		c.Write(answer, c.refused(ctx, limiter, Refuse(http.StatusServiceUnavailable,
			"too many requests are waiting for the hook: try again later")))
		return
	}
	defer entered.leave()
	run, err := c.read(ctx, w, r, entered)
	if err == nil && run != nil {
		// The server's read deadline must not end the run. Not every connection supports deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		answer, err = c.run(ctx, entered, run)
	}
	if r.Context().Err() != nil {
		err = ErrGone
	}
	c.Write(answer, err)
}

// refused logs a refusal, once a minute for each hook.
func (c *Call[A]) refused(ctx context.Context, by *limiter, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // the client has disconnected
	}
	if suppressed, due := by.refused.Due(err.Error(), ""); due {
		c.Log.Warn("A request is refused", "error", err.Error(), "again", suppressed, "hint",
			"make the hook faster, let it get fewer requests, run more replicas, or raise --http-parallel")
	}
	return err
}

// read parses the body when its bytes are free.
func (c *Call[A]) read(ctx context.Context, w http.ResponseWriter, r *http.Request, entered *request) (
	func(context.Context) (A, error), error,
) {
	body := &Body{announced: r.ContentLength, limit: c.MaxBytes}
	if entered.reserve(ctx, body.size()) != nil {
		return nil, c.refused(ctx, entered.of, Refuse(http.StatusServiceUnavailable,
			"no memory was free for the request in time: try again later"))
	}
	body.Reader = http.MaxBytesReader(w, r.Body, body.size())
	run, err := c.Parse(body)
	entered.complete(body.read)
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, Refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", c.MaxBytes)
	}
	return run, err
}

// run runs the hook in a slot, and returns when it has answered or ctx has ended.
func (c *Call[A]) run(ctx context.Context, entered *request, run func(context.Context) (A, error)) (answer A, err error) {
	slots := entered.of.running
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return answer, c.refused(ctx, entered.of, fmt.Errorf("%w: %w", ErrSlots, context.Cause(ctx)))
	}
	type outcome struct {
		answer A
		err    error
	}
	done := make(chan outcome, 1)
	entered.uses.Add(1)
	runs, _ := ctx.Value(runsKey{}).(*sync.WaitGroup)
	cmp.Or(runs, &c.Limits.runs).Go(func() {
		defer entered.done()
		defer func() { <-slots }()
		var out outcome
		defer func() {
			if bug := recover(); bug != nil {
				c.Log.Error("panic recovered in a request", "error", fmt.Sprint(bug), "stack", string(debug.Stack()))
				out.err = errors.New("the operator panicked, which is a bug in it: the log has the stack")
			}
			done <- out
		}()
		out.answer, out.err = run(ctx)
	})
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}
