package admission

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// RegistrarOptions configure a Registrar. ConfigurationName is required.
type RegistrarOptions struct {
	// Target is the server of the hooks. Outside a cluster webhooks with a URL are removed when Run ends: no other replica serves them.
	// Inside they stay.
	keep.Target
	Inside bool
	Hooks  []*hook.Hook
	// ConfigurationName is the prefix of the objects' name, which ends in "-hooks".
	ConfigurationName string
	// AnyURL makes Remove accept every URL of a shell-operator, not only URL: outside a cluster the address and the
	// port of an operator that has ended are unknown. Then neither Service nor URL is required.
	AnyURL bool
	// DefaultFailurePolicy is as in Options.
	DefaultFailurePolicy string
	// ExcludeNamespaces are not reviewed, unless the namespace selector of a binding has a term about the names of namespaces.
	ExcludeNamespaces []string
	// ExcludeUsers and ExcludeGroups are clients whose requests are not reviewed.
	ExcludeUsers, ExcludeGroups []string
	// DryRun makes Remove log what it would do.
	DryRun bool
	// Left, if set, has for each kind whether webhooks of this operator were in the cluster when it was read last, by this Registrar or an
	// earlier one.
	Left *sync.Map
}

// Registrar reconciles the webhook configurations in the cluster with the hooks' bindings.
type Registrar struct {
	opts    RegistrarOptions
	keepers []*keeper
}

// removeTimeout bounds the removal at the end.
const removeTimeout = 5 * time.Second

// NewRegistrar returns a Registrar. It sends no request.
func NewRegistrar(o RegistrarOptions) *Registrar {
	o.Left = cmp.Or(o.Left, &sync.Map{})
	all := plan(o.Hooks, o.DefaultFailurePolicy)
	r := &Registrar{opts: o}
	for _, k := range []kind{validating, mutating} {
		r.keepers = append(r.keepers, newKeeper(&r.opts, k, all))
	}
	return r
}

// ErrReplaced is the cause of a context of Run whose Registrar is replaced by another one: then nothing is removed.
var ErrReplaced = errors.New("another registrar follows")

// Run registers the webhooks of each hook when it is ready, and keeps them registered until ctx ends. Call it once. What fails is
// reported and tried again: what is registered stays. It removes or empties a configuration without bindings if it points to this operator.
func (r *Registrar) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, k := range r.keepers {
		all.Go(func() { k.Object.Run(ctx) })
	}
	all.Wait()
	if r.opts.URL != "" && !r.opts.Inside && r.opts.Registers() && !errors.Is(context.Cause(ctx), ErrReplaced) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		return r.Remove(last)
	}
	return nil
}

// checkTimeout bounds a check: an API server that cannot be reached does not keep the operator from starting.
const checkTimeout = 10 * time.Second

// Check returns why the API server would reject the webhooks of the hooks. It changes nothing.
func (r *Registrar) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs []error
	for _, k := range r.keepers {
		if len(k.webhooks) > 0 {
			errs = append(errs, k.check(ctx))
		}
	}
	return errors.Join(errs...)
}

// Remove deletes both configurations, or empties those that the operator has not created, if they point to the Service or URL, and no
// operator that started later has written them. It must not run concurrently with Run. Without the permission to list, it does nothing.
func (r *Registrar) Remove(ctx context.Context) error {
	var errs []error
	for _, k := range r.keepers {
		errs = append(errs, k.remove(ctx))
	}
	return errors.Join(errs...)
}

// kind is one of the two kinds of configurations.
type kind struct {
	typ            event.Type
	name, resource string
	// value is the value of the chart for the kind.
	value string
}

var (
	validating = kind{event.Validating, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "validating"}
	mutating   = kind{event.Mutating, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutating"}
)
