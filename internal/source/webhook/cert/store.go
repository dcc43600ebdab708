package cert

import (
	"context"
	"errors"
)

// store keeps the state of all replicas.
type store interface {
	// read returns an absentError, a *damagedError together with what is good, or another error.
	read(ctx context.Context) (kept, error)
	// write replaces what was read. If somebody else did that meanwhile, it returns errConflict.
	write(ctx context.Context, old kept, s state) error
	// follow sends on wake, without waiting, whenever there may be something new, until ctx ends.
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
	errConflict = errors.New("somebody else wrote at the same time")
)

// damagedError says what cannot be used.
type damagedError struct{ problem error }

func (e *damagedError) Error() string { return e.problem.Error() }
func (e *damagedError) Unwrap() error { return e.problem }

// memory is the store of one process.
type memory struct{ state state }

var _ store = (*memory)(nil)

func (m *memory) read(context.Context) (kept, error) {
	if !m.state.usable() {
		return kept{}, errAbsent
	}
	return kept{state: m.state}, nil
}

func (m *memory) write(_ context.Context, _ kept, s state) error {
	m.state = s
	return nil
}

func (m *memory) follow(ctx context.Context, _ chan<- struct{}) { <-ctx.Done() }
