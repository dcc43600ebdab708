// Package gate bounds how many questions are in the house, and how many of them run something.
//
// Callers may rely on this:
//   - Enter never waits: who does not get in can be told so at once.
//   - Nobody keeps others out by asking slowly: Readings.
//   - Of those who are in, only so many have started and not finished at a time.
package gate

import "context"

// Gate is safe for concurrent use.
type Gate struct {
	// house has a token for each question that is being read, waits or runs.
	house chan struct{}
	// running has a token for each run, also while it is being ended and nobody waits for it any more.
	running chan struct{}
}

// New returns a Gate for so many runs at a time, and so many questions that wait.
func New(parallel, queue int) *Gate {
	return &Gate{house: make(chan struct{}, parallel+queue), running: make(chan struct{}, parallel)}
}

// Enter tells whether there is room. Who gets in has to Leave.
func (g *Gate) Enter() bool {
	select {
	case g.house <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave gives the place back.
func (g *Gate) Leave() { <-g.house }

// Start waits until there may be one more run. Who has started has to Finish.
func (g *Gate) Start(ctx context.Context) error {
	select {
	case g.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish makes room for the next run.
func (g *Gate) Finish() { <-g.running }
