package applyset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// parallelRestores is the maximum of members that are restored at the same time.
const parallelRestores = 4

// driftKey identifies a member to check for drift.
type driftKey struct {
	id string
	ref
}

// setBaseline stores the set as the baseline for drift.
func (s *session) setBaseline() {
	set := *s.set
	set.Objects = nil
	if set.Owner != nil && s.owner != nil { // one that is recreated is another one
		owner := *set.Owner
		owner.UID = string(s.owner.UID)
		set.Owner = &owner
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.baseline = &session{Applier: s.Applier, names: s.names, hook: s.hook, set: &set, state: s.state, ownerKind: s.ownerKind,
		resources: s.resources}
	restoring := map[ref]*restores{}
	for r, latest := range s.state.restores { // their delays stay
		if s.wanted[r] {
			latest.stopped, latest.note = false, ""
			restoring[r] = latest
		}
	}
	s.state.restores = restoring
	s.state.complete, s.state.differing, s.state.failed = false, map[ref]bool{}, map[ref]error{}
}

// succeeded stores that the set is complete, and has no other members.
func (s *session) succeeded() {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.complete = true
	maps.DeleteFunc(s.state.applied, func(_ ref, last applied) bool { return last.unwanted })
}

// unchanged reports whether the set is as the last Sync of this process has left it: it has the same objects and options, and the watches,
// which have delivered what was applied then, have reported no difference.
func (s *session) unchanged() bool {
	if s.opts.Watch == nil || s.opts.DryRun {
		return false
	}
	s.state.mu.Lock()
	differs := len(s.state.differing) > 0
	all := maps.Clone(s.state.applied)
	s.state.mu.Unlock()
	if o := s.set.Owner; o != nil {
		// Without a uid only a request shows whether the owner is still the same: the garbage collector deletes the members of an earlier one.
		if o.UID == "" {
			return false
		}
		s.owner = &live{ObjectMeta: metav1.ObjectMeta{UID: types.UID(o.UID), Name: o.Name}}
		defer func() { s.owner = nil }()
	}
	return !differs && s.isRemembered() && !slices.ContainsFunc(s.objects, func(o *wanted) bool {
		return !s.delivered(o, all[o.ref].version)
	})
}

func sameOptions(a, b *effect.ObjectSet) bool {
	return a.Force == b.Force && a.Restore == b.Restore && slices.Equal(a.PruneKinds, b.PruneKinds)
}

// delivered reports whether a watch has delivered all changes up to a version.
func (s *session) delivered(o *wanted, version uint64) bool {
	s.mu.Lock()
	f := s.followers[scope{o.resource, ""}]
	if f == nil {
		f = s.followers[scope{o.resource, o.namespace}]
	}
	s.mu.Unlock()
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return version > 0 && f.reached >= version
}

// known returns what is known of a set, or nil.
func (a *Applier) known(id string) *setState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sets[id]
}

// changed compares a member with what was applied. If another client has changed its label, only the name shows whose it is.
func (a *Applier) changed(r ref, o *live) {
	if s := a.known(o.Labels[partOfLabel]); s != nil && a.observe(s, r, o) {
		return
	}
	for _, s := range a.states() {
		a.observe(s, r, o)
	}
}

// absent is what is seen of an object that is gone, or has no label of a set any more. The label is the last one.
func absent(label, version string) *live {
	return &live{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Labels: map[string]string{partOfLabel: label}}}
}

// observe has a member checked that differs from what the set has applied. It reports whether it is one. During a Sync it stores what was
// delivered.
func (a *Applier) observe(s *setState, r ref, o *live) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.applied[r]
	if !known && s.seen == nil {
		return false
	}
	is := s.sighting(o)
	switch {
	case s.seen != nil:
		if is.version > max(last.version, s.seen[r].version) {
			s.seen[r] = is
		}
	case s.baseline != nil && !last.unwanted && is.differs(last):
		s.differing[r] = true
		a.drifted.Add(driftKey{s.id, r})
	}
	return known || o.Labels[partOfLabel] == s.id
}

// listed compares the members in a scope with a complete list of it. Those that are not in it are gone, unless they were applied after it
// was made.
func (a *Applier) listed(at scope, present map[ref]*live, version string) {
	for r, o := range present {
		if s := a.known(o.Labels[partOfLabel]); s != nil {
			a.observe(s, r, o)
		}
	}
	for _, s := range a.states() {
		s.mu.Lock()
		var members []ref
		for r, last := range s.applied {
			if r.GroupKind == at.kind() && (at.namespace == "" || at.namespace == r.namespace) && last.version <= versionOf(version) {
				members = append(members, r)
			}
		}
		s.mu.Unlock()
		for _, r := range members {
			switch o := present[r]; {
			case o == nil:
				a.observe(s, r, absent("", version))
			case o.Labels[partOfLabel] != s.id:
				a.observe(s, r, o)
			}
		}
	}
}

// Recheck restores what was left alone while a hook did not run.
func (a *Applier) Recheck() {
	for _, s := range a.states() {
		s.mu.Lock()
		if s.baseline != nil && s.baseline.set.Restore {
			for r := range s.differing {
				a.drifted.Add(driftKey{s.id, r})
			}
		}
		s.mu.Unlock()
	}
}

// Contested is a set with members that are not restored now: other clients change them, or requests fail.
type Contested struct {
	Hook, Set, ID string
	// Notes have the members and the causes, sorted.
	Notes []string
}

// Contested returns the sets with such members, by hook and id.
func (a *Applier) Contested() (all []Contested) {
	for _, s := range a.states() {
		s.mu.Lock()
		if s.baseline != nil {
			c := Contested{Hook: s.baseline.hook, Set: s.baseline.set.Name, ID: s.shortID()}
			for r, latest := range s.restores {
				if s.differing[r] && latest.note != "" {
					c.Notes = append(c.Notes, latest.note)
				}
			}
			if slices.Sort(c.Notes); len(c.Notes) > 0 {
				all = append(all, c)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(x, y Contested) int { return cmp.Or(cmp.Compare(x.Hook, y.Hook), cmp.Compare(x.ID, y.ID)) })
	return all
}

// restoreAll restores members until the queue ends.
func (a *Applier) restoreAll(ctx context.Context) {
	for {
		item, over := a.drifted.Get()
		if over {
			return
		}
		if ctx.Err() == nil {
			a.check(ctx, item)
		}
		a.drifted.Done(item)
	}
}

// restores are the restores of a member.
type restores struct {
	// limit has the restores that may be made now.
	limit *rate.Limiter
	// stopped: another manager has applied a field, so the next Sync decides.
	stopped bool
	// note is why the member is not restored now: while it is stopped, until the end of a delay, or after a failed attempt.
	note string
}

const (
	// freeRestores of a member are made without a delay. Each restoreEvery adds one.
	freeRestores = 5
	restoreEvery = 10 * time.Minute
	// minFailureDelay is the delay after the first failed restore. Each further failure doubles it, up to maxFailureDelay.
	minFailureDelay, maxFailureDelay = time.Second, time.Hour
)

// delay is the time until the next restore.
func (r *restores) delay(now time.Time) time.Duration {
	return time.Duration((1 - r.limit.TokensAt(now)) * float64(restoreEvery))
}

var (
	// errStopped ends a restore without a result.
	errStopped = errors.New("the member is not restored")
	// errFaster ends one because the member was changed after it was read.
	errFaster = errors.New("another client was faster")
	// errForeign ends one for good.
	errForeign = errors.New("another client has created it again")
)

// check compares a member with what was applied, and restores it.
func (a *Applier) check(ctx context.Context, item driftKey) {
	s, release := a.tryBegin(item)
	if s == nil {
		return
	}
	defer release()
	s.mu.Lock()
	base := s.baseline
	last, known := s.applied[item.ref]
	s.mu.Unlock()
	if base == nil || !known || last.unwanted { // or a Sync has begun the set again
		a.failing.Forget(item)
		return
	}
	c := &restoration{session: base, ref: item.ref, last: last, item: item}
	c.log = a.opts.Log.With("hook", base.hook, "set", base.set.Name, "object", item.ref.String())
	if a.opts.Warned != nil {
		ctx = kube.WithWarnings(ctx, func(about, text string) { a.opts.Warned(c.log, base.hook, about, text) })
	}
	err := c.restore(ctx)
	for attempt := 1; errors.Is(err, errFaster) && attempt < maxAttempts; attempt++ {
		err = c.restore(ctx)
	}
	switch {
	case err == nil, errors.Is(err, errStopped), errors.Is(err, errFaster), ctx.Err() != nil: // after errFaster a further event follows
	case errors.Is(err, errOvertaken):
		a.drifted.AddAfter(item, a.failing.When(item))
	case errors.Is(err, errForeign):
		c.log.Warn("An object of a set is not restored", "reason", err.Error())
	default:
		delay := a.failing.When(item)
		c.state.mu.Lock()
		// which may have values of the object
		c.restores().note = c.ref.String() + " is not restored, because requests fail: the log has the error"
		c.state.mu.Unlock()
		c.log.Warn("A changed object of a set is not restored yet", "error", err.Error(), "delay", delay.String())
		a.drifted.AddAfter(item, delay)
	}
}

// restoration restores one member. A Sync of the whole set would do without it, and sends 8 requests instead of 3 for one changed member of
// 100, 15 for one of 1,000; and a member that another client changes repeatedly would delay the restores of all.
type restoration struct {
	*session
	ref  ref
	last applied
	item driftKey
	// counted: the difference is reported.
	counted bool
}

func (c *restoration) restore(ctx context.Context) error {
	res, known := c.resources[c.ref.GroupKind]
	if !known {
		return nil
	}
	current, err := c.get(ctx, res, c.ref.namespace, c.ref.name)
	if err != nil {
		return err
	}
	if current != nil && !c.sighting(current).differs(c.last) {
		c.same()
		return nil
	}
	if current != nil && current.UID == c.last.uid && current.DeletionTimestamp != nil {
		return nil // its end follows
	}
	if ended, err := c.ownerEnds(ctx); err != nil || ended {
		return cmp.Or(err, errStopped)
	}
	// After the member: what another process changes from now on, it has announced in the parent, or changes later than this version.
	if err := c.readParent(ctx); err != nil {
		return err
	}
	if !c.isLast() {
		c.drop(c.state)
		return errStopped
	}
	if current != nil && current.UID == c.last.uid {
		if isKept(current.Annotations) && !c.last.kept {
			return c.keep(ctx, res, current)
		}
		if c.fieldsHash(current) == c.last.fieldsHash { // it is kept no more: the next Sync adds the owner
			return nil
		}
	}
	if c.set.Restore && c.opts.Active != nil && !c.opts.Active(c.hook) {
		return nil // Recheck follows
	}
	if c.opts.Differs != nil && !c.counted {
		c.opts.Differs(c.hook, c.set.Name, c.ref.Kind)
	}
	c.counted = true
	if !c.set.Restore {
		return nil
	}
	if err := c.may(current); err != nil {
		return err
	}
	if err := c.apply(ctx, current); err != nil {
		return err
	}
	c.log.Info("A changed object of a set is restored", "changedBy", changers(current, c.manager))
	return nil
}

// ownerEnds drops the set if the owner is gone or terminating: then the members follow, and nothing is restored.
func (c *restoration) ownerEnds(ctx context.Context) (bool, error) {
	o := c.set.Owner
	if o == nil {
		return false, nil
	}
	owner, err := c.get(ctx, c.ownerKind, o.Namespace, o.Name)
	if err != nil || owner != nil && string(owner.UID) == o.UID && owner.DeletionTimestamp == nil {
		return false, err
	}
	c.drop(c.state)
	return true, nil
}

// restores returns the restores of the member. It requires state.mu.
func (c *restoration) restores() *restores {
	r := c.state.restores[c.ref]
	if r == nil {
		r = &restores{limit: rate.NewLimiter(rate.Every(restoreEvery), freeRestores)}
		c.state.restores[c.ref] = r
	}
	return r
}

// may decides whether a member is restored now.
func (c *restoration) may(current *live) error {
	by := c.takenBy(current)
	c.state.mu.Lock()
	r := c.restores()
	stopped, delay, before := r.stopped, r.delay(c.opts.Now()), r.note
	switch {
	case stopped:
	case by != "":
		r.stopped, r.note = true, fmt.Sprintf("%s is not restored until the next run, because %s has applied its fields", c.ref, by)
	case delay > 0:
		r.note = fmt.Sprintf("%s is changed repeatedly, by %s", c.ref, changers(current, c.manager))
	}
	note := r.note
	c.state.mu.Unlock()
	switch {
	case stopped:
	case by != "":
		c.warn("ObjectNotRestored", note)
	case delay <= 0:
		return nil
	default:
		if note != before {
			c.warn("ObjectRestoredTooOften", fmt.Sprintf("%s: the next restore follows in %s", note, delay.Round(time.Second)))
		}
		c.drifted.AddAfter(c.item, delay)
	}
	return errStopped
}

func (c *restoration) warn(reason, note string) {
	c.log.Warn("An object of a set is not restored", "reason", note)
	if c.opts.Warn != nil {
		about := effect.Owner{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.namespace, Name: c.names.parent}
		if c.set.Owner != nil {
			about = *c.set.Owner
		}
		c.opts.Warn(c.hook, about, reason, note)
	}
}

// apply applies the last manifest again: only fields that it has are taken back.
func (c *restoration) apply(ctx context.Context, current *live) error {
	res := c.resources[c.ref.GroupKind]
	uid, version := c.last.uid, ""
	switch {
	case current == nil: // no precondition keeps it from those that a Sync of another process is about to prune
		if err := c.writeParent(ctx, c.parent.places, true); err != nil {
			return err
		}
		c.state.mu.Lock()
		c.state.last = c.parent.number()
		c.state.mu.Unlock()
		uid = ""
	case current.UID != uid:
		return errForeign
	default:
		version = current.ResourceVersion
	}
	answer, created, err := c.patchApply(ctx, res, c.ref.namespace, c.ref.name, pinned(c.last.manifest, uid, version), uid != "")
	switch {
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		if o := c.set.Owner; o != nil && o.Namespace == c.ref.namespace {
			c.drop(c.state)
		} else {
			c.drifted.AddAfter(c.item, c.failing.When(c.item))
		}
		return errStopped
	case isReplaced(err):
		return errFaster
	case err != nil:
		return err
	case uid == "" && !created && !c.meets(answer):
		return errors.Join(errForeign, c.undo(ctx, c.ref, res, answer))
	case uid == "":
		if err := c.stays(ctx, res, answer); err != nil {
			return err
		}
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.applied[c.ref] = c.applied(c.last.manifest, answer)
	r := c.restores()
	r.limit.AllowN(c.opts.Now(), 1)
	r.note = ""
	delete(c.state.differing, c.ref)
	c.failing.Forget(c.item)
	return nil
}

// stays removes a member that was created again if another process has changed the set since it was counted: that has perhaps read the
// members before there was this one.
func (c *restoration) stays(ctx context.Context, res kube.Resource, created *live) error {
	err := c.readParent(ctx)
	if err == nil && c.isLast() {
		return nil
	}
	removed := c.deleteObject(ctx, res, append(res.Path(c.ref.namespace), c.ref.name), created)
	if apierrors.IsNotFound(removed) || apierrors.IsConflict(removed) { // the other process has it now
		removed = nil
	}
	if err = errors.Join(err, removed); err == nil {
		c.drop(c.state)
		return errStopped
	}
	return err
}

// keep makes a member that must be kept independent of the owner.
func (c *restoration) keep(ctx context.Context, res kube.Resource, current *live) error {
	answer := current
	if at := slices.IndexFunc(current.OwnerReferences, c.isOwner); at >= 0 {
		var err error
		steps := append(testsOf(current), step{Op: "remove", Path: fmt.Sprintf("/metadata/ownerReferences/%d", at)})
		if answer, err = c.patchJSON(ctx, res, append(res.Path(c.ref.namespace), c.ref.name), steps); err != nil {
			return err
		}
	}
	o := &wanted{ref: c.ref, member: &effect.Member{Object: c.last.manifest}, kept: true}
	if err := o.decode(); err != nil {
		return err
	}
	c.log.Info("An object of a set is kept when its owner is deleted, because of an annotation", "annotation", pruneAnnotation)
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	is := c.applied(c.manifest(o), answer)
	if c.fieldsHash(current) == c.last.fieldsHash {
		delete(c.state.differing, c.ref)
	} else { // other clients have changed it, too
		is.fieldsHash = c.last.fieldsHash
	}
	c.state.applied[c.ref] = is
	return nil
}

// same stores that the member is as it was applied.
func (c *restoration) same() {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if r := c.state.restores[c.ref]; r != nil {
		r.note = ""
	}
	delete(c.state.differing, c.ref)
	c.failing.Forget(c.item)
}

// takenBy returns the manager whose apply has taken fields from the set, or "".
func (c *restoration) takenBy(current *live) string {
	if current == nil {
		return ""
	}
	had := setOf(&metav1.FieldsV1{Raw: []byte(c.last.fields)})
	if at := entryOf(current, c.manager); at >= 0 {
		had = had.Difference(setOf(current.ManagedFields[at].FieldsV1))
	}
	for _, e := range current.ManagedFields {
		if e.Operation == metav1.ManagedFieldsOperationApply && e.Manager != c.manager && !had.Intersection(setOf(e.FieldsV1)).Empty() {
			return e.Manager
		}
	}
	return ""
}

func setOf(fields *metav1.FieldsV1) *fieldpath.Set {
	s := &fieldpath.Set{}
	if fields != nil && s.FromJSON(fields.GetRawReader()) != nil {
		return &fieldpath.Set{}
	}
	return s
}

// changers names the managers of an object but the set's, the latest first.
func changers(o *live, manager string) string {
	if o == nil {
		return "a deletion"
	}
	var names []string
	for _, e := range o.ManagedFields {
		if e.Manager != manager && !slices.Contains(names, e.Manager) {
			names = append(names, e.Manager)
		}
	}
	return strings.Join(names, ", ")
}
