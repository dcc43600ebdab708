package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	record "github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/finalizer"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// newFinalizers makes the record of finalizers, and the options of the gates.
func (op *operator) newFinalizers(cl *kube.Cluster, o Options) (gates finalizer.Options, err error) {
	config := o.Patches.Client(cl.Config)
	o.Election.fence(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return leaderTransport{next, op} })
	op.meter.Count(config, "finalizers")
	client, err := kube.NewClient(config)
	if err != nil {
		return gates, fmt.Errorf("cannot make a client for finalizers: %w", err)
	}
	op.finalizers = record.New(record.Options{
		Client: client, Namespace: func() (string, error) { return cl.OwnNamespace(o.Installation.Namespace) },
		Instance: cl.Instance(o.Installation), Log: o.Log,
		Halted: func(reason string, than uint64) { op.gates.Halt(reason, than) },
	})
	return finalizer.Options{Changes: client, Manager: kube.FieldManager(cl.Instance(o.Installation)), Record: op.claim}, nil
}

// bindings are the bindings of hooks, with their finalizers.
type bindings struct {
	*watch.Watcher
	*finalizer.Finalizers
}

// host is the name of the Pod or of the machine.
func host(o Options) string {
	if o.Pod != "" {
		return o.Pod
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "shell-operator"
}

// leaderTransport sends requests as the leader, which a fence can hold back.
type leaderTransport struct {
	next http.RoundTripper
	op   *operator
}

func (t leaderTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.op.election != nil {
		req = req.WithContext(t.op.election.Fence(req.Context()))
	}
	return t.next.RoundTrip(req)
}

// WrappedRoundTripper returns the transport below.
func (t leaderTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// claim records a finalizer of a binding, and then searches for orphans: the binding may have had another one.
func (op *operator) claim(ctx context.Context, h *hook.Hook, index int, res kube.Resource) error {
	err := op.finalizers.Claim(ctx, h, index, res)
	if err == nil {
		op.hooksChanged([]*hook.Hook{h})
	}
	return err
}

// hooksChanged makes findOrphans search. It does not block.
func (op *operator) hooksChanged([]*hook.Hook) {
	kube.Wake(op.orphanSearch)
}

// orphanRetry is the delay before a search that failed is repeated.
const orphanRetry = time.Minute

// findOrphans searches for finalizers and sets without a hook when this replica leads or owns shard 0, and after each change of the hooks,
// until ctx ends.
func (op *operator) findOrphans(ctx context.Context) {
	select {
	case <-op.once: // one shard reports for all
	case <-ctx.Done():
		return
	}
	last := ""
	for {
		hooks := op.life.Hooks()
		err := op.finalizers.CheckOrphans(ctx, op.life.Present())
		if kube.IsPermissionMissing(err) && !slices.ContainsFunc(hooks, hasFinalizer) { // nothing has ever been recorded
			err = nil
		}
		err = errors.Join(err, op.findLostSets(ctx, hooks))
		var again <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			last = ""
			op.searchProblem.Store(nil)
		default:
			again = time.After(orphanRetry)
			if err.Error() != last {
				op.log.Warn("Cannot search for finalizers and sets whose hook is gone", "error", err.Error())
			}
			last = err.Error()
			op.searchProblem.Store(&last)
		}
		select {
		case <-op.orphanSearch:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

func hasFinalizer(h *hook.Hook) bool {
	return slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" })
}

// searchFails is why the last search failed; empty if it did not.
func (op *operator) searchFails() string {
	if problem := op.searchProblem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// UninstallFinalizers removes the finalizers of an installation from all objects.
func UninstallFinalizers(ctx context.Context, cl *kube.Cluster, o Options) error {
	namespace := func() (string, error) { return cl.OwnNamespace(o.Installation.Namespace) }
	if _, err := namespace(); err != nil && !cl.Inside {
		return nil // no operator has found it, either
	}
	client, err := kube.NewClient(o.Patches.Client(cl.Config)) // many changes, as of hooks
	if err != nil {
		return err
	}
	with := record.Options{Client: client, Namespace: namespace, Instance: cl.Instance(o.Installation), Log: o.Log}
	return record.Uninstall(ctx, with, o.Patches.DryRun)
}
