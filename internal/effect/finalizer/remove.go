package finalizer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// inFlight bounds the requests that remove finalizers concurrently.
const inFlight = 16

// rounds bounds how often a resource is listed again, because a running operator adds the finalizer meanwhile.
const rounds = 10

// Orphan is an entry of this installation without an active binding.
type Orphan struct {
	Entry
	// Objects is the number of objects that have the finalizer.
	Objects int
}

// Orphans are those that the last CheckOrphans found.
func (r *Record) Orphans() []Orphan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.orphans)
}

// CheckOrphans finds the finalizers of this installation whose hook or binding is gone, and logs those that the last search has not found
// so. An entry without an object stays until it is removed on request: another operator may be about to add the finalizer.
func (r *Record) CheckOrphans(ctx context.Context, hooks []*hook.Hook) error {
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	var orphans []Orphan
	var errs []error
	for _, e := range all {
		if e.Instance != r.o.Instance || r.active(e, hooks) {
			continue
		}
		objects, _, err := r.find(ctx, e)
		if err != nil {
			errs = append(errs, err)
		} else if len(objects) > 0 {
			orphans = append(orphans, Orphan{e, len(objects)})
		}
	}
	r.mu.Lock()
	before := r.orphans
	r.orphans = orphans
	r.mu.Unlock()
	for _, o := range orphans {
		if slices.ContainsFunc(before, func(b Orphan) bool { return reflect.DeepEqual(b, o) }) {
			continue // it is logged
		}
		r.o.Log.Warn("A finalizer has no hook any more: its objects cannot be deleted", "finalizer", o.Finalizer, "resource", o.Resource,
			"hook", o.Hook, "binding", o.Binding, "objects", o.Objects,
			"hint", "run 'finalizers remove --yes "+o.Finalizer+"', or bring the hook back")
	}
	return errors.Join(errs...)
}

// active reports whether a hook has a binding with the finalizer for the resource. A binding that has not claimed its finalizer may be for
// any.
func (r *Record) active(e Entry, hooks []*hook.Hook) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by, ok := r.owned[e.key()]; ok && slices.Contains(hooks, by.hook) {
		return true
	}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			claimed := false
			for _, by := range r.owned {
				claimed = claimed || by == owner{h, i}
			}
			if h.Kubernetes[i].Finalizer == e.Finalizer && !claimed {
				return true
			}
		}
	}
	return false
}

// find returns the objects to which the installation of an entry has added its finalizer, and the number of those to which other clients
// have; none if the API server does not serve the kind.
func (r *Record) find(ctx context.Context, e Entry) (objects []kube.Finalized, foreign int, err error) {
	res := e.resource()
	objects, err = kube.WithFinalizer(ctx, r.o.Client, res, e.Namespaces, e.Finalizer)
	if apierrors.IsNotFound(err) { // the version, at least
		res, err = kube.NewResolver(r.o.Client).ResolveGroup(ctx, schema.GroupKind{Group: res.Group, Kind: e.Kind})
		if errors.As(err, new(*kube.UnknownKindError)) {
			return nil, 0, nil
		}
		if err == nil {
			objects, err = kube.WithFinalizer(ctx, r.o.Client, res, e.Namespaces, e.Finalizer)
		}
	}
	if err = withRule(res, err); err != nil {
		return nil, 0, fmt.Errorf("cannot list %s to find the objects with the finalizer %s: %w", e.Resource, e.Finalizer, err)
	}
	all := len(objects)
	objects = slices.DeleteFunc(objects, func(o kube.Finalized) bool { return !o.AddedBy(kube.FieldManager(e.Instance), e.Namespaces) })
	return objects, all - len(objects), nil
}

// withRule names the rule that is missing, if it is the permission.
func withRule(res kube.Resource, err error) error {
	return kube.Explain(err, "", kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"list", "get", "patch"}})
}

// strip removes the finalizer of an entry from the objects to which its installation has added it. It returns the number of objects that
// keep the finalizer, because other clients have added it.
func (r *Record) strip(ctx context.Context, e Entry) (foreign int, err error) {
	for range rounds {
		objects, foreign, err := r.find(ctx, e)
		if err != nil || len(objects) == 0 {
			return foreign, err
		}
		if err := r.stripObjects(ctx, e.Finalizer, objects); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("objects of %s keep getting the finalizer %s: is an operator running?", e.Resource, e.Finalizer)
}

func (r *Record) stripObjects(ctx context.Context, name string, objects []kube.Finalized) error {
	errs := make([]error, len(objects))
	kube.Concurrently(len(objects), inFlight, func(i int) {
		o := objects[i]
		_, err := kube.RemoveFinalizer(ctx, r.o.Client, o, name)
		if err = withRule(o.Resource, err); err != nil && !apierrors.IsNotFound(err) {
			errs[i] = fmt.Errorf("cannot remove the finalizer %s of %s %s: %w", name, o.Resource.Resource,
				strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
			return
		}
		r.o.Log.Debug("Finalizer removed", "finalizer", name, "namespace", o.Namespace, "name", o.Name)
	})
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(failed) - 10; more > 0 {
		failed = append(failed[:10], fmt.Errorf("and %d more objects failed", more))
	}
	return errors.Join(failed...)
}

// forget removes entries and the mark of the installation, and with the last entry the record.
func (r *Record) forget(ctx context.Context, entries []Entry) error {
	return r.edit(ctx, func(now *configMap) error {
		if !now.exists() {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, e := range entries {
			delete(now.Data, e.key())
		}
		now.mark(slices.DeleteFunc(now.marked(), func(i string) bool { return i == r.o.Instance }))
		left, err := now.entries()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(left, func(e Entry) bool { return e.Instance == r.o.Instance }) {
			r.written = false
		}
		if len(now.Data) == 0 && len(now.marked()) == 0 {
			clear(now.Data)
			clear(now.Annotations)
		}
		return nil
	})
}

// Remove removes a finalizer of an installation from its objects, and its entries. It returns the number of entries, and that of objects
// that keep the finalizer, because other clients have added it.
func (r *Record) Remove(ctx context.Context, name, instance string) (removed, foreign int, err error) {
	all, err := r.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	var done []Entry
	for _, e := range all {
		if e.Finalizer != name || e.Instance != instance {
			continue
		}
		n, failed := r.strip(ctx, e)
		if foreign, err = foreign+n, failed; err != nil {
			break
		}
		r.o.Log.Warn("Finalizer removed from all objects on request", "finalizer", name, "resource", e.Resource, "instance", instance)
		done = append(done, e)
	}
	if len(done) > 0 {
		r.mu.Lock()
		r.orphans = slices.DeleteFunc(r.orphans, func(o Orphan) bool {
			return slices.ContainsFunc(done, func(e Entry) bool { return e.key() == o.key() })
		})
		r.mu.Unlock()
	}
	return len(done), foreign, errors.Join(err, r.forget(ctx, done))
}

// Uninstall marks the record, and removes the finalizers of the installation from its objects, then its entries. Operators of the
// installation that are running stop adding them. A resource that fails does not hold up others; mark and entries then stay. A dry run
// only logs what would be removed.
func Uninstall(ctx context.Context, o Options, dryRun bool) error {
	r := New(o)
	var own []Entry
	err := r.edit(ctx, func(now *configMap) error {
		all, err := now.entries()
		own = slices.DeleteFunc(all, func(e Entry) bool { return e.Instance != o.Instance })
		if marked := now.marked(); !dryRun && len(own) > 0 && !slices.Contains(marked, o.Instance) {
			now.mark(append(marked, o.Instance))
		}
		return err
	})
	if kube.IsPermissionMissing(err) && len(own) == 0 {
		o.Log.Warn("Cannot find out whether objects have finalizers of this installation", "error", err.Error())
		return nil
	}
	if err != nil || len(own) == 0 {
		return err
	}
	var errs []error
	for _, e := range own {
		of, foreign := o.Log.With("finalizer", e.Finalizer, "resource", e.Resource), 0
		if dryRun {
			var objects []kube.Finalized
			if objects, foreign, err = r.find(ctx, e); err == nil {
				of.Info("Dry run: a finalizer would be removed from all objects", "objects", len(objects))
			}
		} else if foreign, err = r.strip(ctx, e); err == nil {
			of.Info("Finalizer removed from all objects")
		}
		if foreign > 0 {
			of.Warn("Objects keep a finalizer that other clients have added", "objects", foreign)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || dryRun {
		return err
	}
	return r.forget(ctx, own)
}
