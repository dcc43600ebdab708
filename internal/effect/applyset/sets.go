package applyset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// parentPrefix begins the names of parents.
const parentPrefix = "shell-operator-"

// Set is a set of this installation, as its parent describes it.
type Set struct {
	// ID is the name of the parent without its prefix.
	ID, Name, Hook string
	// Owner is nil for a set without one.
	Owner *SetOwner
	// Problem is why this version cannot use the parent. The owner is not known then.
	Problem string
}

// SetOwner is the owner of a set. A version is not part of its identity.
type SetOwner struct{ Group, Kind, Namespace, Name string }

func (o SetOwner) groupKind() schema.GroupKind { return schema.GroupKind{Group: o.Group, Kind: o.Kind} }

func (o SetOwner) String() string {
	return o.groupKind().String() + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// MemberState is an object of a set.
type MemberState struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Reason explains the state. Kept objects are released when the set is deleted.
	Reason string `json:"reason,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
}

// State is the process's knowledge of a member.
type State string

const (
	Applied       State = "applied"
	Drifted       State = "drifted"
	WaitingForCRD State = "waiting for CRD"
	Rejected      State = "rejected"
	// Unknown members have not been applied since the start.
	Unknown State = "unknown"
)

// stateOf returns the state of an object that could not be applied.
func stateOf(err error) State {
	if errors.As(err, new(*kube.UnknownKindError)) {
		return WaitingForCRD
	}
	return Rejected
}

// parse returns the set of a parent; false for parents of other installations and other programs.
func (a *Applier) parse(p *live) (Set, bool) {
	path, own := strings.CutPrefix(p.Annotations[setAnnotation], a.opts.Instance+"/")
	at := strings.LastIndexByte(path, '/')
	id, named := strings.CutPrefix(p.Name, parentPrefix)
	if !own || !named || at < 0 {
		return Set{}, false
	}
	set := Set{ID: id, Hook: path[:at], Name: path[at+1:]}
	if _, err := placesOf(p); err != nil {
		set.Problem = err.Error()
		return set, true
	}
	if parts := strings.SplitN(p.Annotations[ownerAnnotation], "/", 4); len(parts) == 4 {
		set.Owner = &SetOwner{parts[0], parts[1], parts[2], parts[3]}
	}
	n := namesOf(a.opts.Instance, a.opts.Namespace, set.Hook, set.Name, set.Owner)
	return set, n.parent == p.Name && n.namespace == p.Namespace && n.id == p.Labels[idLabel] // otherwise it is a copy
}

// List returns the sets of this installation, of all hooks.
func (a *Applier) List(ctx context.Context) (sets []Set, err error) {
	parents, err := a.list(ctx, parentResource, a.opts.Namespace, idLabel)
	if err != nil {
		return nil, fmt.Errorf("cannot list the sets: %w", explain(err, parentResource, a.opts.Namespace, "list"))
	}
	for i := range parents {
		if set, ok := a.parse(&parents[i]); ok {
			sets = append(sets, set)
		}
	}
	slices.SortFunc(sets, func(x, y Set) int { return cmp.Or(cmp.Compare(x.Hook, y.Hook), cmp.Compare(x.ID, y.ID)) })
	return sets, nil
}

var errAbsent = errors.New("does not exist any more")

// find returns an empty Sync of a set.
func (a *Applier) find(ctx context.Context, log *slog.Logger, id string) (*session, error) {
	where := "the set " + id
	text, err := kube.Send(ctx, a.opts.Client.Get().AbsPath(append(parentResource.Path(a.opts.Namespace), parentPrefix+id)...))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s %w", where, errAbsent)
	}
	var p live
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", where, err)
	}
	set, ok := a.parse(&p)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is not of this installation", where)
	case set.Problem != "":
		return nil, fmt.Errorf("%s %s", where, set.Problem)
	}
	s := &session{
		Applier: a, names: namesOf(a.opts.Instance, a.opts.Namespace, set.Hook, set.Name, set.Owner), hook: set.Hook,
		set: &effect.ObjectSet{Name: set.Name,
			PruneKinds: strings.FieldsFunc(p.Annotations[pruneKindsAnnotation], func(r rune) bool { return r == ',' })},
		needs: func(string, ...kube.Rule) {}, log: log.With("hook", set.Hook, "set", set.Name),
	}
	if o := set.Owner; o != nil {
		res, err := a.opts.Resolver.ResolveGroup(ctx, o.groupKind())
		switch {
		case errors.As(err, new(*kube.UnknownKindError)): // its CRD is deleted, and the owner with it
			res = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Group: o.Group}, Kind: o.Kind, Namespaced: o.Namespace != ""}
		case err != nil:
			return nil, fmt.Errorf("cannot find the kind of the owner of %s: %w", where, err)
		}
		s.ownerKind = res
		s.set.Owner = &effect.Owner{APIVersion: res.GroupVersion().String(), Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	}
	return s, nil
}

// Delete prunes a set as an empty Sync does. It returns how many objects were deleted, and how many were released.
func (a *Applier) Delete(ctx context.Context, log *slog.Logger, id string) (deleted, released int, err error) {
	s, err := a.find(ctx, log, id)
	if err != nil {
		return 0, 0, err
	}
	release, err := s.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	if err = s.run(ctx); err != nil {
		err = fmt.Errorf("the set %s is not deleted completely, repeat the command: %w", id, err)
	}
	return int(s.deleted.Load()), int(s.released.Load()), err
}

// Show returns the members of a set, and the objects that its last Sync could not apply.
func (a *Applier) Show(ctx context.Context, log *slog.Logger, id string) ([]MemberState, error) {
	s, err := a.find(ctx, log, id)
	if err != nil {
		return nil, err
	}
	if s.state = a.known(s.id); s.state == nil {
		s.state = &setState{}
	}
	_, err = s.read(ctx)
	if err = errors.Join(append([]error{err}, s.incomplete...)...); err != nil {
		return nil, fmt.Errorf("cannot list the members of the set %s: %w", id, err)
	}
	s.state.mu.Lock()
	known, failed := maps.Clone(s.state.applied), maps.Clone(s.state.failed)
	s.state.mu.Unlock()
	return s.states(known, failed), nil
}

// states compares the members with what the process has applied, and could not apply.
func (s *session) states(known map[ref]applied, failed map[ref]error) []MemberState {
	all := map[ref]MemberState{}
	for r, last := range known {
		if s.members[r] == nil && !last.unwanted {
			all[r] = MemberState{State: Drifted, Reason: "it is gone, or no member any more"}
		}
	}
	for r, member := range s.members {
		m := MemberState{State: Unknown, Kept: s.keeps(r, member.Annotations)}
		if last, ok := known[r]; ok {
			if m.State = Applied; last.uid != member.UID || last.fieldsHash != s.fieldsHash(member) {
				m.State, m.Reason = Drifted, "changed by "+cmp.Or(changers(member, s.manager), "an unknown manager")
			}
		}
		all[r] = m
	}
	for r, err := range failed {
		m := all[r]
		m.State, m.Reason = stateOf(err), err.Error()
		all[r] = m
	}
	var list []MemberState
	for _, r := range slices.SortedFunc(maps.Keys(all), func(a, b ref) int { return strings.Compare(a.String(), b.String()) }) {
		m := all[r]
		m.Kind, m.Namespace, m.Name = r.GroupKind.String(), r.namespace, r.name
		list = append(list, m)
	}
	return list
}
