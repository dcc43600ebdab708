package applyset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// session is one Sync.
type session struct {
	*Applier
	names
	hook  string
	set   *effect.ObjectSet
	needs func(namespace string, rules ...kube.Rule)
	state *setState
	log   *slog.Logger

	// ownerKind is the resource of the owner; owner is nil if there is none, or no longer one.
	ownerKind kube.Resource
	owner     *live
	// shrinks: the owner is being deleted, and a finalizer of the hook holds it. Nothing new is created.
	shrinks bool
	parent  *parent

	objects []*wanted
	wanted  map[ref]bool
	// resources are the API resources of kinds that are recorded or wanted.
	resources map[schema.GroupKind]kube.Resource
	members   map[ref]*live
	// incomplete are reasons not to prune.
	incomplete []error
	// adopts is the id of the set whose members move to this one.
	adopts string
	// deleted and released count members that were pruned.
	deleted, released atomic.Int64
}

// identify finds the names of the set.
func (s *session) identify(ctx context.Context) error {
	if s.opts.Namespace == "" {
		return errors.New("the operator's own namespace is unknown: set --namespace")
	}
	if o := s.set.Owner; o != nil {
		res, err := s.opts.Resolver.Resolve(ctx, o.APIVersion, o.Kind)
		var unknown *kube.UnknownKindError
		switch gv, _ := schema.ParseGroupVersion(o.APIVersion); {
		case errors.As(err, &unknown) && len(s.set.Objects) == 0: // its CRD is deleted, and the owner with it
			res = kube.Resource{GroupVersionResource: gv.WithResource(""), Kind: o.Kind, Namespaced: o.Namespace != ""}
		case err != nil:
			return fmt.Errorf("cannot find the kind of its owner: %w", err)
		case res.Namespaced && o.Namespace == "":
			return fmt.Errorf("%s is namespaced, but owner.namespace is not set", res.Kind)
		case !res.Namespaced && o.Namespace != "":
			return fmt.Errorf("%s is not namespaced, but owner.namespace is set", res.Kind)
		}
		s.ownerKind = res
	}
	s.names = namesOf(s.opts.Instance, s.opts.Namespace, s.hook, s.set.Name, s.setOwner())
	return nil
}

func (s *session) setOwner() *SetOwner {
	if o := s.set.Owner; o != nil {
		return &SetOwner{s.ownerKind.Group, s.ownerKind.Kind, o.Namespace, o.Name}
	}
	return nil
}

// errOvertaken reports that another process of the installation has changed the set meanwhile.
var errOvertaken = errors.New("other processes of this installation change the set at the same time")

const (
	// maxOvertaken bounds how often a Sync begins again because another process was faster, overtakenPause is the maximum of the first pause
	// before that. It doubles, and is random, so that two processes do not overtake each other forever.
	maxOvertaken   = 8
	overtakenPause = 50 * time.Millisecond
)

func (s *session) run(ctx context.Context) error {
	if err := s.plan(ctx); err != nil {
		return err
	}
	s.reportNeeds()
	if s.unchanged() {
		if err := s.readParent(ctx); err != nil || s.isLast() {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		err := s.try(ctx)
		if !errors.Is(err, errOvertaken) || attempt == maxOvertaken {
			return err
		}
		if !kube.Wait(ctx, 1+rand.N(overtakenPause<<attempt), nil) {
			return err
		}
	}
}

// try makes the set complete. What it remembers and decides counts from its first write of the parent to its last look at it: if another
// process has written the parent in between, it fails with errOvertaken.
func (s *session) try(ctx context.Context) error {
	s.owner, s.shrinks, s.members, s.incomplete = nil, false, map[ref]*live{}, nil
	// Neither depends on the other.
	reads, errs := []func(context.Context) error{s.readOwner, s.readParent}, [2]error{}
	kube.Concurrently(len(reads), len(reads), func(i int) { errs[i] = reads[i](ctx) })
	if gone := new(ownerGoneError); errors.As(errs[0], &gone) && gone.known {
		s.log.Info("The owner of a set is gone, its objects are not applied", "owner", gone.owner, "reason", gone.reason)
		return errs[1]
	}
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return err
	}
	recorded := s.recorded()
	if len(recorded) == 0 && len(s.objects) == 0 {
		return s.deleteParent(ctx)
	}
	if !s.isLast() {
		s.state.lose()
	} else if s.isRemembered() {
		if err := s.readMembers(ctx, recorded); err != nil || s.isComplete() {
			return err
		}
		s.members, s.incomplete = map[ref]*live{}, nil
	}
	places, _ := s.wantedPlaces()
	if err := s.writeParent(ctx, recorded.union(places), true); err != nil {
		return err
	}
	if err := cmp.Or(s.readMembers(ctx, recorded), s.readRelabelled(ctx)); err != nil {
		return err
	}
	places, owned := s.wantedPlaces()
	recorded = recorded.union(places)
	if s.owner != nil && !owned && len(s.set.Finalizers) == 0 {
		s.warnLeft()
	}
	s.remember(recorded)
	s.setBaseline()
	err := s.apply(ctx)
	if err = errors.Join(append([]error{err}, s.incomplete...)...); err == nil {
		err = s.prune(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return cmp.Or(err, ctx.Err())
	case err != nil:
		return err
	case len(places) == 0:
		s.remember(nil)
		return s.deleteParent(ctx)
	}
	s.remember(places)
	if err = s.complete(ctx, places); err == nil {
		s.succeeded()
	}
	return err
}

// wantedPlaces returns where the wanted objects are, and whether all of them get a reference to the owner.
func (s *session) wantedPlaces() (places, bool) {
	all, owned := places{}, true
	for _, o := range s.objects {
		if o.err == nil {
			member := s.members[o.ref]
			o.kept = member != nil && isKept(member.Annotations)
			all.add(o.ref)
			owned = owned && s.owns(o)
		}
	}
	return all, owned
}

// complete writes what is known of a set that was made complete. It fails if another process has begun to change it.
func (s *session) complete(ctx context.Context, places places) error {
	if s.opts.DryRun {
		return nil
	}
	before := s.parent
	if err := s.writeParent(ctx, places, false); err != nil || s.parent != before {
		return err
	}
	if err := s.readParent(ctx); err != nil {
		return err
	}
	if !s.isLast() {
		return errOvertaken
	}
	return nil
}

// isLast reports whether no other process has changed the set since this one did.
func (s *session) isLast() bool {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return s.parent != nil && s.state.last == s.parent.number()
}

// isRemembered reports whether the last Sync of this process has succeeded with the same objects, options and owner.
func (s *session) isRemembered() bool {
	s.state.mu.Lock()
	base, all := s.state.baseline, maps.Clone(s.state.applied)
	complete := base != nil && s.state.complete && len(all) == len(s.objects) && sameOptions(s.set, base.set) &&
		(s.owner == nil || string(s.owner.UID) == base.set.Owner.UID)
	s.state.mu.Unlock()
	return complete && !slices.ContainsFunc(s.objects, func(o *wanted) bool {
		last, known := all[o.ref]
		o.kept = last.kept
		return !known || o.err != nil || !bytes.Equal(last.manifest, s.manifest(o))
	})
}

// isComplete reports whether the members that were read are as this process has applied them.
func (s *session) isComplete() bool {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	for _, o := range s.objects {
		member, last := s.members[o.ref], s.state.applied[o.ref]
		if member == nil || member.DeletionTimestamp != nil || s.sighting(member).differs(last) {
			return false
		}
	}
	return len(s.members) == len(s.objects) && len(s.incomplete) == 0
}

// memberVerbs are the verbs that RBAC has to allow for members.
var memberVerbs = []string{"create", "delete", "get", "list", "patch", "watch"}

func (s *session) reportNeeds() {
	s.needs(s.opts.Namespace, kube.Rule{Resource: parentResource.Resource, Verbs: []string{"create", "delete", "get", "patch"}})
	if o := s.set.Owner; o != nil && s.ownerKind.Resource != "" {
		s.needs(o.Namespace, kube.Rule{Group: s.ownerKind.Group, Resource: s.ownerKind.Resource, Verbs: []string{"get"}}, s.blocking())
	}
	for _, o := range s.objects {
		if o.served() {
			s.needs(o.namespace, kube.Rule{Group: o.resource.Group, Resource: o.resource.Resource, Verbs: memberVerbs})
		}
	}
}

// blocking is the rule for members that block the deletion of the owner.
func (s *session) blocking() kube.Rule {
	return kube.Rule{Group: s.ownerKind.Group, Resource: s.ownerKind.Resource + "/finalizers", Verbs: []string{"update"}}
}

// warnLeft warns that members outlive their owner: without a reference to it the API server does not delete them, and without a finalizer
// no run can be sure to prune them.
func (s *session) warnLeft() {
	s.state.mu.Lock()
	first := !s.state.leftWarned
	s.state.leftWarned = true
	s.state.mu.Unlock()
	if first {
		s.log.Warn("Members without a reference to their owner stay when it is deleted", "owner", s.ownerKind.Kind+"/"+s.set.Owner.Name,
			"hint", "add finalizer to the binding of the owner, and on Deleting return a Sync without objects")
	}
}

// recorded returns where members may be.
func (s *session) recorded() places {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if s.parent == nil { // possibly deleted by hand
		return s.state.places.union(nil)
	}
	return s.parent.places.union(nil)
}

// remember stores where members are.
func (s *session) remember(p places) {
	if s.opts.DryRun {
		return
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.places = p
	if s.parent != nil {
		s.state.last = s.parent.number()
	}
	for r, last := range s.state.applied {
		if last.unwanted = !s.wanted[r]; last.unwanted && !p.has(r) {
			delete(s.state.applied, r)
		} else {
			s.state.applied[r] = last
		}
	}
}

// ownerGoneError is the error of objects whose owner is gone.
type ownerGoneError struct {
	owner, reason string
	// known: the owner was there when the hook ran.
	known bool
}

func (e *ownerGoneError) Error() string {
	return fmt.Sprintf("its owner %s %s: only a set without objects is possible now", e.owner, e.reason)
}

// readOwner reads the owner. Only an empty set may be of one that is gone. While a finalizer of the hook holds it, a set may shrink.
func (s *session) readOwner(ctx context.Context) error {
	o := s.set.Owner
	if o == nil {
		return nil
	}
	name := s.ownerKind.Kind + "/" + o.Name
	reason, known := "does not exist", o.UID != ""
	if s.ownerKind.Resource != "" {
		found, err := s.get(ctx, s.ownerKind, o.Namespace, o.Name)
		switch {
		case err != nil:
			return fmt.Errorf("cannot read its owner %s: %w", name, explain(err, s.ownerKind, o.Namespace, "get"))
		case found == nil:
		case found.DeletionTimestamp != nil && (o.UID == "" || string(found.UID) == o.UID) && len(s.set.Objects) > 0 && s.isHeld(found):
			s.owner, s.shrinks = found, true
			return nil
		case found.DeletionTimestamp != nil:
			reason, known = "is being deleted", true
		case o.UID != "" && string(found.UID) != o.UID:
			reason = "is another object than the one with the uid " + o.UID
		default:
			s.owner = found
			return nil
		}
	}
	if len(s.set.Objects) > 0 {
		return &ownerGoneError{name, reason, known}
	}
	return nil
}

// isHeld reports whether the owner has a finalizer of the hook.
func (s *session) isHeld(owner *live) bool {
	return slices.ContainsFunc(owner.Finalizers, func(name string) bool { return slices.Contains(s.set.Finalizers, name) })
}

// read reads the parent and the members, and returns where members may be.
func (s *session) read(ctx context.Context) (recorded places, err error) {
	if err = s.plan(ctx); err == nil {
		err = s.readParent(ctx)
	}
	if err != nil {
		return nil, err
	}
	recorded = s.recorded()
	return recorded, s.readMembers(ctx, recorded)
}

// readMembers lists the members at all places. Kinds that are no longer served have no objects; their records are removed.
func (s *session) readMembers(ctx context.Context, recorded places) error {
	type list struct {
		res       kube.Resource
		kind      schema.GroupKind
		namespace string
		items     []live
		err       error
	}
	var lists []*list
	for kind, namespaces := range recorded {
		res, known := s.resources[kind]
		if !known {
			var err error
			res, err = s.opts.Resolver.ResolveGroup(ctx, kind)
			if errors.As(err, new(*kube.UnknownKindError)) {
				if !slices.ContainsFunc(s.objects, func(o *wanted) bool { return o.GroupKind == kind }) {
					delete(recorded, kind)
				}
				continue
			}
			if err != nil {
				s.incomplete = append(s.incomplete, fmt.Errorf("nothing is pruned, because the kind %s of members cannot be found: %w", kind, err))
				continue
			}
			s.resources[kind] = res
		}
		s.mu.Lock()
		wide := len(namespaces) > 1 && !s.narrow[res.GroupResource()]
		s.mu.Unlock()
		if wide {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			lists = append(lists, &list{res: res, kind: kind, namespace: namespace})
		}
	}
	kube.Concurrently(len(lists), parallel, func(i int) {
		l := lists[i]
		l.items, l.err = s.list(ctx, l.res, l.namespace, partOfLabel+"="+s.id)
		if !l.res.Namespaced || l.namespace != "" || !kube.IsPermissionMissing(l.err) {
			return
		}
		s.mu.Lock()
		s.narrow[l.res.GroupResource()] = true
		s.mu.Unlock()
		l.items, l.err = nil, nil
		for _, namespace := range recorded[l.kind] {
			items, err := s.list(ctx, l.res, namespace, partOfLabel+"="+s.id)
			l.items, l.err = append(l.items, items...), errors.Join(l.err, explain(err, l.res, namespace, "list"))
		}
	})
	for _, l := range lists {
		if l.err != nil {
			err := explain(l.err, l.res, l.namespace, "list")
			s.incomplete = append(s.incomplete, fmt.Errorf("nothing is pruned, because members of kind %s cannot be listed: %w", l.kind, err))
		}
		for i := range l.items {
			item := &l.items[i]
			r := ref{l.kind, item.Namespace, item.Name}
			switch {
			case !recorded.has(r):
			case s.isMember(item):
				s.members[r] = item
			default:
				s.log.Debug("An object has the label of a set that did not create it, it is left alone", "object", r.String())
			}
		}
	}
	return ctx.Err()
}

// readRelabelled reads members that lists by the label lack, and that are pruned now: one whose label was removed or replaced would have
// been restored in the next moment. Those that are wanted are read anyway.
func (s *session) readRelabelled(ctx context.Context) error {
	if s.set.Owner != nil && s.owner == nil { // the garbage collector deletes them
		return nil
	}
	var missing []ref
	s.state.mu.Lock()
	for r := range s.state.applied {
		if _, known := s.resources[r.GroupKind]; known && s.members[r] == nil && !s.wanted[r] && s.set.Restore {
			missing = append(missing, r)
		}
	}
	s.state.mu.Unlock()
	errs := make([]error, len(missing))
	found := make([]*live, len(missing))
	kube.Concurrently(len(missing), parallel, func(i int) {
		found[i], errs[i] = s.get(ctx, s.resources[missing[i].GroupKind], missing[i].namespace, missing[i].name)
	})
	for i, o := range found {
		if o != nil && s.isRelabelled(missing[i], o) {
			s.members[missing[i]] = o
		}
	}
	return joined(errs)
}

// owns reports whether an object gets a reference to the owner.
func (s *session) owns(o *wanted) bool {
	return s.owner != nil && (!s.ownerKind.Namespaced || o.namespace == s.set.Owner.Namespace) && !o.kept && !s.keeps(o.ref, o.annotations)
}

// keeps reports whether an object is released rather than pruned.
func (s *session) keeps(r ref, annotations map[string]string) bool {
	return isKept(annotations) || s.set.Keeps(r.Group, r.Kind)
}

func (s *session) ownerReference() metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: s.ownerKind.GroupVersion().String(), Kind: s.ownerKind.Kind, Name: s.owner.Name, UID: s.owner.UID,
		Controller: &yes, BlockOwnerDeletion: &yes}
}

// plan finds the resources, namespaces and phases of all objects. It returns an error if the set is impossible; an object whose kind is not
// known does not hold up the others.
func (s *session) plan(ctx context.Context) error {
	s.wanted, s.members, s.resources = map[ref]bool{}, map[ref]*live{}, map[schema.GroupKind]kube.Resource{}
	scopes := definedScopes(s.set.Objects)
	var errs []error
	for i := range s.set.Objects {
		m := &s.set.Objects[i]
		gv, err := schema.ParseGroupVersion(m.APIVersion)
		if err != nil {
			errs = append(errs, fmt.Errorf("objects[%d]: %w", i, err))
			continue
		}
		o := &wanted{index: i, member: m, ref: ref{GroupKind: gv.WithKind(m.Kind).GroupKind(), name: m.Name}}
		o.resource, o.err = s.opts.Resolver.Resolve(ctx, m.APIVersion, m.Kind)
		if namespaced, defined := scopes[o.GroupKind]; defined && errors.As(o.err, new(*kube.UnknownKindError)) {
			o.resource, o.err = kube.Resource{Kind: m.Kind, Namespaced: namespaced}, nil
		}
		o.Kind = cmp.Or(o.resource.Kind, m.Kind)
		switch {
		case o.err != nil:
			o.namespace = m.Namespace
		case o.resource.Namespaced:
			o.namespace = cmp.Or(m.Namespace, s.memberNamespace())
		case m.Namespace != "":
			errs = append(errs, fmt.Errorf("objects[%d]: %s is not namespaced, but metadata.namespace is set", i, m.Kind))
		}
		if o.served() {
			s.resources[o.GroupKind] = o.resource
		}
		if s.wanted[o.ref] {
			errs = append(errs, fmt.Errorf("objects[%d]: %s is in the set twice", i, o.ref))
		}
		s.wanted[o.ref] = true
		if err := o.decode(); err != nil {
			errs = append(errs, fmt.Errorf("objects[%d]: %w", i, err))
		}
		s.objects = append(s.objects, o)
	}
	return joined(errs)
}

// memberNamespace returns the namespace for members that name none.
func (s *session) memberNamespace() string {
	if s.set.Owner != nil && s.set.Owner.Namespace != "" {
		return s.set.Owner.Namespace
	}
	return s.opts.Namespace
}

// definedScopes reports which kinds the CRDs of a set define, and whether they are namespaced.
func definedScopes(objects []effect.Member) map[schema.GroupKind]bool {
	scopes := map[schema.GroupKind]bool{}
	for i := range objects {
		if objects[i].Kind != crdKind.Kind {
			continue
		}
		var crd struct {
			Spec struct {
				Group, Scope string
				Names        struct{ Kind string }
			}
		}
		if json.Unmarshal(objects[i].Object, &crd) == nil {
			scopes[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = crd.Spec.Scope != "Cluster"
		}
	}
	return scopes
}

// joined joins the errors of objects, not more than can be read.
func joined(errs []error) error {
	const most = 20
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most], fmt.Errorf("and %d more objects", more))
	}
	return errors.Join(errs...)
}

// answered reports whether the API server has rejected a request, rather than left its outcome open.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}
