package conversion

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// RegistrarOptions of a Registrar. All are required. A CRD is left as it is until all hooks that convert its objects are ready, and its
// caBundle while there is none.
type RegistrarOptions struct {
	// Target is the Handler's server.
	keep.Target
	Hooks []*hook.Hook
	// Converted receives a CRD whose spec.conversion has changed: the API server ends the watches of the kind.
	Converted func(crd string)
}

// Registrar reconciles spec.conversion of CRDs.
type Registrar struct{ keepers []*keeper }

// NewRegistrar returns a Registrar. It sends no request.
func NewRegistrar(o RegistrarOptions) *Registrar {
	r := &Registrar{}
	steps := stepsByCRD(o.Hooks)
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		r.keepers = append(r.keepers, newKeeper(&o, name, steps[name]))
	}
	return r
}

// Run reconciles until ctx ends. Errors of one CRD are logged and retried, and do not block the others. The Handler must be
// reachable before.
func (r *Registrar) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, k := range r.keepers {
		all.Go(func() { k.Object.Run(ctx) })
	}
	all.Wait()
	return nil
}

// lookTimeout bounds the first reading: an API server that cannot be reached does not keep the operator from starting.
const lookTimeout = 10 * time.Second

// Look reads the CRDs once, for Seen. What fails is read again by Run.
func (r *Registrar) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, k := range r.keepers {
		_, _ = k.look(ctx)
	}
}
