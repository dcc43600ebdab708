package applyset

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Part is the role of an object in a set: its owner, or a member.
type Part struct {
	ID    string `json:"id"`
	Set   string `json:"set"`
	Hook  string `json:"hook"`
	Owner bool   `json:"owner,omitempty"`
	// Members are set for the owner: all members of the set.
	Members []MemberState `json:"members,omitempty"`
	// State is set for a member, Reason explains it.
	State  State  `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Parts returns what an object is to the sets that were made complete since the start, by hook and id. It sends no request: a member is
// Drifted if a watch has reported that.
func (a *Applier) Parts(isKind func(schema.GroupKind) bool, namespace, name string) (all []Part) {
	for _, s := range a.states() {
		hook, set := s.hookAndSet(a.opts.Instance)
		is := func(r ref) bool { return r.namespace == namespace && r.name == name && isKind(r.GroupKind) }
		owner, owned := strings.Split(s.owner, "/"), []MemberState{}
		owns := len(owner) == 4 && is(ref{schema.GroupKind{Group: owner[0], Kind: owner[1]}, owner[2], owner[3]})
		add := func(r ref, state State, reason string) {
			if owns {
				owned = append(owned, MemberState{Kind: r.GroupKind.String(), Namespace: r.namespace, Name: r.name, State: state, Reason: reason})
			} else if is(r) {
				all = append(all, Part{Hook: hook, Set: set, ID: s.shortID(), State: state, Reason: reason})
			}
		}
		s.mu.Lock()
		for r, last := range s.applied {
			switch latest := s.restores[r]; {
			case last.unwanted || s.failed[r] != nil:
			case !s.differing[r]:
				add(r, Applied, "")
			case latest != nil:
				add(r, Drifted, latest.note)
			default:
				add(r, Drifted, "")
			}
		}
		for r, err := range s.failed {
			add(r, stateOf(err), err.Error())
		}
		s.mu.Unlock()
		if owns {
			slices.SortFunc(owned, func(x, y MemberState) int {
				return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
			})
			all = append(all, Part{Hook: hook, Set: set, ID: s.shortID(), Owner: true, Members: owned})
		}
	}
	slices.SortFunc(all, func(x, y Part) int { return cmp.Or(cmp.Compare(x.Hook, y.Hook), cmp.Compare(x.ID, y.ID)) })
	return all
}

// shortID is the name of the parent without its prefix, as commands show it.
func (n *names) shortID() string { return strings.TrimPrefix(n.parent, parentPrefix) }

// hookAndSet are in the identity of a set.
func (n *names) hookAndSet(instance string) (hook, set string) {
	path := strings.TrimPrefix(n.set, instance+"/")
	at := strings.LastIndexByte(path, '/')
	return path[:max(at, 0)], path[at+1:]
}
