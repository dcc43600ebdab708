package applyset

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Part is what an object is to a set: its owner, or a member.
type Part struct {
	Hook, Set, ID string
	Owner         bool
	// State is that of a member, Reason explains it.
	State  State
	Reason string
}

// Parts returns what an object is to the sets that were made complete since the start, by hook and id. It sends no request: a member is
// Drifted if a watch has reported that.
func (a *Applier) Parts(isKind func(schema.GroupKind) bool, namespace, name string) (all []Part) {
	for _, s := range a.states() {
		hook, set := s.hookAndSet(a.opts.Instance)
		if owner := strings.Split(s.owner, "/"); len(owner) == 4 && owner[2] == namespace && owner[3] == name &&
			isKind(schema.GroupKind{Group: owner[0], Kind: owner[1]}) {
			all = append(all, Part{Hook: hook, Set: set, ID: s.shortID(), Owner: true})
		}
		s.mu.Lock()
		for kind := range s.places {
			r := ref{kind, namespace, name}
			if last, is := s.applied[r]; is && !last.unwanted && s.failed[r] == nil && isKind(kind) {
				p := Part{Hook: hook, Set: set, ID: s.shortID(), State: Applied}
				if s.differing[r] {
					p.State = Drifted
					if latest := s.restores[r]; latest != nil {
						p.Reason = latest.note
					}
				}
				all = append(all, p)
			}
		}
		for r, err := range s.failed {
			if r.namespace == namespace && r.name == name && isKind(r.GroupKind) {
				all = append(all, Part{Hook: hook, Set: set, ID: s.shortID(), State: Rejected, Reason: err.Error()})
			}
		}
		s.mu.Unlock()
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
