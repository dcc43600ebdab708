package conversion

import "context"

// gate bounds how many reviews are in the house, and how many of them run hooks.
type gate struct {
	// house and running have a token for each review that is there.
	house, running chan struct{}
}

func newGate(parallel, queue int) *gate {
	return &gate{house: make(chan struct{}, parallel+queue), running: make(chan struct{}, parallel)}
}

// enter never waits. Who gets in has to leave.
func (g *gate) enter() bool {
	select {
	case g.house <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g *gate) leave() { <-g.house }

// run waits for its turn to do something.
func (g *gate) run(ctx context.Context, do func() error) error {
	select {
	case g.running <- struct{}{}:
		defer func() { <-g.running }()
		return do()
	case <-ctx.Done():
		return &failure{message: "The conversion waited for others until " + timeLimit(ctx), cause: ctx.Err()}
	}
}
