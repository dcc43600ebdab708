package conversion

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
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
	// Earlier are CRDs that hooks of this process have converted.
	Earlier []string
}

// Registrar reconciles spec.conversion of CRDs.
type Registrar struct {
	opts    RegistrarOptions
	keepers []*keeper
	steps   map[string][]step
}

// NewRegistrar returns a Registrar. It sends no request.
func NewRegistrar(o RegistrarOptions) *Registrar {
	r := &Registrar{opts: o, steps: stepsByCRD(o.Hooks)}
	for _, name := range slices.Sorted(maps.Keys(r.steps)) {
		r.keepers = append(r.keepers, newKeeper(&r.opts, name, r.steps[name]))
	}
	return r
}

// Run reconciles until ctx ends. Errors of one CRD are logged and retried, and do not block the others. The Handler must be
// reachable before.
func (r *Registrar) Run(ctx context.Context) error {
	var all sync.WaitGroup
	run := func(keepers []*keeper) {
		for _, k := range keepers {
			all.Go(func() { k.Object.Run(ctx) })
		}
	}
	run(r.keepers)
	all.Go(func() { run(r.left(ctx)) })
	all.Wait()
	return nil
}

// left returns keepers of CRDs that an operator has written, and no hook converts. Without the permission to list all CRDs it is those of
// this process.
func (r *Registrar) left(ctx context.Context) (all []*keeper) {
	var list metav1.PartialObjectMetadataList
	const metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	text, err := kube.Send(ctx, r.opts.Client.Get().AbsPath(crdPath).SetHeader("Accept", metadata))
	if err = cmp.Or(err, json.Unmarshal(text, &list)); err != nil {
		r.opts.Log.Debug("Cannot list CRDs to find those that lead here, and that no hook converts", "error", err.Error())
	}
	names := slices.Clone(r.opts.Earlier)
	for _, crd := range list.Items {
		if slices.ContainsFunc(crd.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == fieldManager }) {
			names = append(names, crd.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if r.steps[name] == nil {
			all = append(all, newKeeper(&r.opts, name, nil))
		}
	}
	return all
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
