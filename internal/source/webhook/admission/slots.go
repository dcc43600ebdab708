package admission

import "context"

// slots limit how many reviews of one hook there are at a time.
type slots struct {
	// places has one element for each request that is being read, waits or runs.
	places chan struct{}
	// running has one element for each run, also while it is being ended and nobody waits for it any more.
	running chan struct{}
}

func newSlots(parallel, queue int) *slots {
	return &slots{places: make(chan struct{}, parallel+queue), running: make(chan struct{}, parallel)}
}

// enter takes a place, if there is one. leave gives it back.
func (s *slots) enter() bool {
	select {
	case s.places <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *slots) leave() { <-s.places }

// start waits until there may be one more run. finish makes room for the next one.
func (s *slots) start(ctx context.Context) error {
	select {
	case s.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slots) finish() { <-s.running }
