package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Uninstalling are the options of Uninstall. All but Ended and DryRun are required.
type Uninstalling struct {
	Client          rest.Interface
	Namespace, Name string
	// Ended: all replicas have ended. A Lease that one of them could not give back runs out then, and is deleted, too.
	Ended, DryRun bool
	Log           *slog.Logger
}

// Uninstall deletes the Leases of an operator: that of leader election with the Name, and those of shards, of all divisions. One whose
// holder may live stays: without it, the holder ends.
func Uninstall(ctx context.Context, o Uninstalling) error {
	u := uninstall{o, &apiStore{client: o.Client, namespace: o.Namespace}}
	return u.run(ctx)
}

type uninstall struct {
	Uninstalling
	store store
}

func (u *uninstall) run(ctx context.Context) error {
	all, err := u.list(ctx)
	if kube.IsPermissionMissing(err) { // there may be none
		u.Log.Warn("No permission to find the Leases of replicas, which stay, if there are any", "error", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	held := slices.DeleteFunc(slices.Clone(all), func(l coordinationv1.Lease) bool { return holder(&l) == "" })
	switch {
	case u.Ended && u.DryRun:
		held = nil // they will have ended
	case u.Ended && len(held) > 0:
		if held, err = u.awaitEnd(ctx, held); err != nil {
			return err
		}
	}
	var errs []error
	for _, lease := range all {
		if slices.ContainsFunc(held, func(l coordinationv1.Lease) bool { return l.Name == lease.Name }) {
			u.Log.Warn("A Lease stays, because its holder may be running", "of", lease.Name, "holder", HolderName(&lease))
			continue
		}
		errs = append(errs, u.remove(ctx, &lease))
	}
	return errors.Join(errs...)
}

// list returns the Leases of the operator.
func (u *uninstall) list(ctx context.Context) ([]coordinationv1.Lease, error) {
	all, err := u.store.list(ctx, ShardsLabel+"="+u.Name)
	if err == nil {
		var elected *coordinationv1.Lease
		if elected, err = u.store.get(ctx, u.Name); err == nil {
			all = append(all, *elected)
		} else if apierrors.IsNotFound(err) {
			err = nil
		}
	}
	return all, u.explain("read the Leases of replicas", err)
}

// awaitEnd returns the Leases that are renewed within their duration.
func (u *uninstall) awaitEnd(ctx context.Context, held []coordinationv1.Lease) (renewed []coordinationv1.Lease, err error) {
	var longest time.Duration
	for i := range held {
		longest = max(longest, ruled(&held[i]).Duration)
	}
	u.Log.Info("Waits until the Leases of replicas that were killed have run out", "leases", len(held), "delay", longest.String())
	select {
	case <-time.After(longest):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now, err := u.list(ctx)
	for _, lease := range now {
		if slices.ContainsFunc(held, func(l coordinationv1.Lease) bool {
			return l.Name == lease.Name && l.ResourceVersion != lease.ResourceVersion && holder(&lease) != ""
		}) {
			renewed = append(renewed, lease)
		}
	}
	return renewed, err
}

// remove deletes a Lease, unless it has changed.
func (u *uninstall) remove(ctx context.Context, lease *coordinationv1.Lease) error {
	if u.DryRun {
		u.Log.Info("Dry run: a Lease would be deleted", "of", lease.Name)
		return nil
	}
	err := u.store.remove(ctx, lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		u.Log.Warn("A Lease stays, because its holder may be running", "of", lease.Name)
		return nil
	case err == nil:
		u.Log.Info("A Lease is deleted", "of", lease.Name)
	}
	return u.explain("delete the Lease "+lease.Name, err)
}

// explain adds the step, and the rule that is missing.
func (u *uninstall) explain(step string, err error) error {
	switch {
	case err == nil:
		return nil
	case kube.IsPermissionMissing(err):
		return fmt.Errorf("cannot %s: %w: %s", step, err, kube.Grant(u.Namespace, kube.Rule{Group: "coordination.k8s.io", Resource: "leases",
			Verbs: strings.Fields("get list delete")}))
	}
	return fmt.Errorf("cannot %s: %w", step, err)
}
