package httpserver

import "context"

// Limiter bounds the requests in flight and the backlog behind them, and rejects the rest immediately. It is safe for
// concurrent use.
type Limiter struct {
	// admitted holds a token per request that is being read, waits or runs.
	admitted chan struct{}
	// running holds a token per run, including a run that is being ended after its client has disconnected.
	running chan struct{}
}

// NewLimiter returns a Limiter for inFlight runs and backlog further requests that wait for one.
func NewLimiter(inFlight, backlog int) *Limiter {
	return &Limiter{admitted: make(chan struct{}, inFlight+backlog), running: make(chan struct{}, inFlight)}
}

// Enter reports whether the request is admitted; it never blocks. Each admitted request must Leave.
func (l *Limiter) Enter() bool {
	select {
	case l.admitted <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave releases the place of an admitted request.
func (l *Limiter) Leave() { <-l.admitted }

// Start blocks until one more run may start. Each started run must Finish.
func (l *Limiter) Start(ctx context.Context) error {
	select {
	case l.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish releases the place of a run.
func (l *Limiter) Finish() { <-l.running }
