package cert

import (
	"context"
	"errors"
)

// store persists the state of all replicas.
type store interface {
	// read returns errAbsent, a *damagedError together with the valid part, or another error.
	read(ctx context.Context) (kept, error)
	// write replaces what was read. If another replica has written since, it returns errConflict.
	write(ctx context.Context, old kept, s state) error
	// follow sends on wake, without blocking, whenever the state may have changed, until ctx ends.
	follow(ctx context.Context, wake chan<- struct{})
}

// kept is a state in a store.
type kept struct {
	state
	// version is empty when there is nothing.
	version string
}

var (
	errAbsent   = errors.New("there is nothing yet")
	errConflict = errors.New("another replica wrote at the same time")
)

// damagedError names what is invalid.
type damagedError struct{ problem error }

func (e *damagedError) Error() string { return e.problem.Error() }
func (e *damagedError) Unwrap() error { return e.problem }

// memory is the store of one process.
type memory struct {
	state   state
	written bool
}

var _ store = (*memory)(nil)

func (m *memory) read(context.Context) (kept, error) {
	if !m.written {
		return kept{}, errAbsent
	}
	return kept{state: m.state}, nil
}

func (m *memory) write(_ context.Context, _ kept, s state) error {
	m.state, m.written = s, true
	return nil
}

func (m *memory) follow(ctx context.Context, _ chan<- struct{}) { <-ctx.Done() }
