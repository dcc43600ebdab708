package finalizer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	// Elsewhere are operators that may have its hook: they have not responded, and may have been killed.
	Elsewhere []string
}

func (o *Orphan) equal(p Orphan) bool {
	return o.key() == p.key() && o.Hook == p.Hook && o.Binding == p.Binding && o.Objects == p.Objects && slices.Equal(o.Elsewhere, p.Elsewhere)
}

// Orphans are those that the last CheckOrphans found.
func (r *Record) Orphans() []Orphan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.orphans)
}

// CheckOrphans finds the finalizers of this installation whose hook or binding is gone. With remove they are removed, otherwise reported,
// and logged if the last search has not found them so.
// Those of hooks that are left out, whose bindings are unknown, are not gone.
func (r *Record) CheckOrphans(ctx context.Context, hooks []*hook.Hook, remove bool) error {
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	owned := maps.Clone(r.owned)
	r.mu.Unlock()
	var candidates []Entry
	for _, e := range all {
		if e.Instance == r.o.Instance && !r.active(e, hooks) {
			candidates = append(candidates, e)
		}
	}
	var elsewhere []string
	if len(candidates) > 0 {
		r.Announce(false)
		others := r.AwaitOthers(ctx)
		if slices.ContainsFunc(others, func(o Other) bool { return o.Alive }) {
			candidates = nil // it may have their hooks
		}
		for _, o := range others {
			elsewhere = append(elsewhere, o.Name)
		}
	}
	var orphans []Orphan
	var done []Entry
	var errs []error
	for _, e := range candidates {
		objects, err := r.find(ctx, e)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(elsewhere) == 0 && !r.o.KeepEntries && (remove || len(objects) == 0):
			if err := r.strip(ctx, e); err != nil {
				errs = append(errs, err)
				break
			}
			r.o.Log.Info("An orphaned finalizer is removed", "finalizer", e.Finalizer, "resource", e.Resource, "hook", e.Hook, "binding", e.Binding,
				"objects", len(objects))
			done = append(done, e)
		case len(objects) > 0:
			orphans = append(orphans, Orphan{e, len(objects), elsewhere})
		}
	}
	r.mu.Lock()
	before := r.orphans
	r.orphans = orphans
	r.mu.Unlock()
	for _, o := range orphans {
		if slices.ContainsFunc(before, o.equal) {
			continue // it is logged
		}
		log := r.o.Log
		if len(o.Elsewhere) > 0 {
			log = log.With("unlessWith", o.Elsewhere)
		}
		log.Warn("A finalizer has no hook any more: its objects cannot be deleted", "finalizer", o.Finalizer, "resource", o.Resource,
			"hook", o.Hook, "binding", o.Binding, "objects", o.Objects, "hint", "run 'finalizers remove "+o.Finalizer+"', or bring the hook back")
	}
	return errors.Join(append(errs, r.forget(ctx, done, owned))...)
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

// find returns the objects with the finalizer of an entry; none if the kind is not served any more.
func (r *Record) find(ctx context.Context, e Entry) ([]kube.Finalized, error) {
	res := e.resource()
	objects, err := kube.WithFinalizer(ctx, r.o.Client, res, e.Namespaces, e.Finalizer)
	if apierrors.IsNotFound(err) { // the version, at least
		var unknown *kube.UnknownKindError
		res, err = kube.NewResolver(r.o.Client).Resolve(ctx, "", e.Resource, "list", "patch")
		if errors.As(err, &unknown) || err == nil && res.Group != e.resource().Group {
			return nil, nil
		}
		if err == nil {
			objects, err = kube.WithFinalizer(ctx, r.o.Client, res, e.Namespaces, e.Finalizer)
		}
	}
	if err = withRule(res, err); err != nil {
		return nil, fmt.Errorf("cannot find the objects with the finalizer %s: %w", e.Finalizer, err)
	}
	return objects, nil
}

// withRule names the rule that is missing, if it is the permission.
func withRule(res kube.Resource, err error) error {
	if !kube.IsPermissionMissing(err) {
		return err
	}
	return fmt.Errorf("%w: %s", err,
		kube.Grant("", kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"list", "get", "patch"}}))
}

// strip removes the finalizer of an entry from all objects.
func (r *Record) strip(ctx context.Context, e Entry) error {
	for range rounds {
		objects, err := r.find(ctx, e)
		if err != nil || len(objects) == 0 {
			return err
		}
		if err := r.stripObjects(ctx, e.Finalizer, objects); err != nil {
			return err
		}
	}
	return fmt.Errorf("objects of %s keep getting the finalizer %s: is an operator running?", e.Resource, e.Finalizer)
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

// forget removes entries, and with the last one the record. An entry that a hook has claimed since the owners were read is kept; with nil
// owners all are removed, and so is the mark.
func (r *Record) forget(ctx context.Context, entries []Entry, owned map[string]owner) error {
	unmark := owned == nil
	if len(entries) == 0 && !unmark {
		return nil
	}
	namespace, err := r.o.Namespace()
	if err != nil {
		return err
	}
	return r.edit(ctx, namespace, func(now *configMap) error {
		if !now.exists() {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if others := r.others.present(); len(others) > 0 && !unmark { // it has started since the objects were found
			return &ElsewhereError{r.o.Instance, others}
		}
		beating := 0
		for key, h := range now.heartbeats() {
			switch {
			case h.Instance != r.o.Instance || r.others.runs(h.Operator):
				beating++
			case r.o.Operator == "":
				delete(now.Metadata.Annotations, key)
			}
		}
		for _, e := range entries {
			if unmark || r.owned[e.key()] == owned[e.key()] {
				delete(now.Data, e.key())
			}
		}
		if unmark {
			now.mark(slices.DeleteFunc(now.marked(), func(i string) bool { return i == r.o.Instance }))
		}
		if len(now.Data) == 0 && len(now.marked()) == 0 && beating == 0 {
			now.empty()
			r.written, r.creates = false, false
		}
		return nil
	})
}

// Remove removes a finalizer of an installation from all objects, and its entries. It returns how many entries there were. While another
// operator of this installation is running, which may have the hook, it changes nothing.
func (r *Record) Remove(ctx context.Context, name, instance string) (removed int, err error) {
	all, err := r.List(ctx)
	if err != nil {
		return 0, err
	}
	if instance == r.o.Instance {
		others := slices.DeleteFunc(r.AwaitOthers(ctx), func(o Other) bool { return !o.Alive })
		if len(others) > 0 {
			return 0, &ElsewhereError{instance, others}
		}
	}
	var done []Entry
	for _, e := range all {
		if e.Finalizer != name || e.Instance != instance {
			continue
		}
		if err = r.strip(ctx, e); err != nil {
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
	return len(done), errors.Join(err, r.forget(ctx, done, nil))
}

// Uninstall marks the record, and removes the finalizers of the installation from all objects, then its entries and heartbeats. The
// operator with the Lease of the options may be running, or any one with running. It changes nothing if another one responds.
func Uninstall(ctx context.Context, o Options, running bool) error {
	namespace, err := o.Namespace()
	if err != nil {
		return err
	}
	if err := alone(ctx, o, running); err != nil {
		return err
	}
	o.Operator = ""
	r := New(o)
	var own []Entry
	beats := false
	err = r.edit(ctx, namespace, func(now *configMap) error {
		own, beats = nil, false
		all, err := now.entries()
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.Instance == o.Instance {
				own = append(own, e)
			}
		}
		for _, h := range now.heartbeats() {
			beats = beats || h.Instance == o.Instance
		}
		if marked := now.marked(); len(own) > 0 && !slices.Contains(marked, o.Instance) {
			now.mark(append(marked, o.Instance))
		}
		return nil
	})
	if kube.IsPermissionMissing(err) && len(own) == 0 {
		o.Log.Warn(unknownFinalizers, "error", err.Error())
		return nil
	}
	if err != nil || len(own) == 0 && !beats {
		return err
	}
	for _, e := range own {
		if err := r.strip(ctx, e); err != nil {
			return err
		}
		o.Log.Info("Finalizer removed from all objects", "finalizer", e.Finalizer, "resource", e.Resource)
	}
	err = r.forget(ctx, own, nil)
	if kube.IsPermissionMissing(err) && len(own) == 0 {
		return nil // only heartbeats are left
	}
	return err
}

// alone returns an error if an operator responds that is not the one to uninstall.
func alone(ctx context.Context, o Options, running bool) error {
	lease := o.Operator
	o.Operator, o.Lease = "process uninstall/"+rand.Text()[:8], false
	r := New(o)
	own, others, err := r.presences(ctx, lease)
	allowed := 0
	if running && !own {
		allowed = 1
	}
	if err != nil || len(others) <= allowed {
		return nil // the next request has the same error
	}
	asking, end := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { r.Run(asking) })
	r.Announce(false)
	alive := slices.DeleteFunc(r.AwaitOthers(ctx), func(o Other) bool { return !o.Alive || o.Name == lease })
	end()
	working.Wait()
	if len(alive) > allowed {
		return fmt.Errorf("%w: uninstall would remove its finalizers, too: end it first, or start it with another --instance",
			&ElsewhereError{o.Instance, alive})
	}
	return ctx.Err()
}

// presences returns the other operators of the installation with a heartbeat, and whether that of the Lease has one.
func (r *Record) presences(ctx context.Context, lease string) (own bool, others []string, err error) {
	all, err := r.Presences(ctx)
	for _, p := range all {
		switch {
		case p.Instance != r.o.Instance:
		case p.Operator == lease:
			own = true
		default:
			others = append(others, p.Operator)
		}
	}
	return own, others, err
}

// PlanUninstall logs what Uninstall would do.
func PlanUninstall(ctx context.Context, o Options) error {
	r := New(o)
	if _, others, err := r.presences(ctx, o.Operator); err == nil && len(others) > 1 {
		o.Log.Warn("Several operators use the instance name, or have been killed: uninstall removes nothing while another one runs",
			"instance", o.Instance, "operators", others)
	}
	all, err := r.List(ctx)
	if kube.IsPermissionMissing(err) {
		o.Log.Warn(unknownFinalizers, "error", err.Error())
		return nil
	}
	var errs []error
	for _, e := range all {
		if e.Instance != o.Instance {
			continue
		}
		objects, err := r.find(ctx, e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.Log.Info("Dry run: a finalizer would be removed from all objects", "finalizer", e.Finalizer, "resource", e.Resource,
			"objects", len(objects))
	}
	return errors.Join(append(errs, err)...)
}

const unknownFinalizers = "Cannot find out whether objects have finalizers of this installation"
