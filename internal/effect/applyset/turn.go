package applyset

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// setState is a process's knowledge of a set.
type setState struct {
	names
	// turn holds one value while a Sync, a move or a check of the set runs.
	turn chan struct{}
	// users counts those that run or wait, watched are the watches of the members. Applier.mu guards both.
	users   int
	watched map[scope]bool

	mu      sync.Mutex
	applied map[ref]applied
	// places are where the last Sync left members: the parent may be deleted.
	places places
	// last identifies the last change of the set by this process, if it is that in the parent. Otherwise nothing else here counts.
	last string
	// leftWarned: the warning that members outlive their owner is logged.
	leftWarned bool
	// baseline is the last Sync, without objects: what its members are compared with and restored to, in turns as well. It is nil before the
	// first one.
	baseline *session
	restores map[ref]*restores
	// failed are the objects that the last Sync could not apply.
	failed map[ref]error
	// complete: the last Sync has succeeded. differing are members that were reported as changed since then.
	complete  bool
	differing map[ref]bool
	// seen has the objects that watches deliver during a Sync, compared at its end; nil at other times. Before the end, some applied
	// objects are unknown.
	seen map[ref]sighting
	// postponed are checks that found the turn taken. The end of each turn repeats one of them, so that they never fill the queue.
	postponed map[ref]bool
}

func newState(n names) *setState {
	return &setState{names: n, turn: make(chan struct{}, 1), applied: map[ref]applied{}, places: places{}, postponed: map[ref]bool{}}
}

// sighting is an object as a watch has delivered it, or a response had it.
type sighting struct {
	// uid is empty for an object that is gone, or has lost its label.
	uid types.UID
	// fieldsHash identifies the fields that the set owns.
	fieldsHash string
	version    uint64
	// kept: the object has the annotation that keeps it.
	kept bool
}

func (n *names) sighting(o *live) sighting {
	return sighting{o.UID, n.fieldsHash(o), versionOf(o.ResourceVersion), isKept(o.Annotations)}
}

func (e sighting) differs(last applied) bool {
	return e.uid != last.uid || e.fieldsHash != last.fieldsHash || e.kept != last.kept
}

// begin waits until nothing else of the set runs.
func (s *session) begin(ctx context.Context) (release func(), err error) {
	s.mu.Lock()
	of := s.sets[s.id]
	if of == nil {
		of = newState(s.names)
		s.sets[s.id] = of
	}
	of.users++
	s.mu.Unlock()
	select {
	case of.turn <- struct{}{}:
		of.mu.Lock()
		of.seen = map[ref]sighting{}
		of.mu.Unlock()
		s.state = of
		return func() { s.end(of) }, nil
	case <-ctx.Done():
		s.leave(of)
		return nil, ctx.Err()
	}
}

// tryBegin begins a check, or returns nil: then it is repeated after what runs now.
func (a *Applier) tryBegin(item driftKey) (*setState, func()) {
	a.mu.Lock()
	s := a.sets[item.id]
	if s == nil {
		a.mu.Unlock()
		a.failing.Forget(item)
		return nil, nil
	}
	s.users++
	a.mu.Unlock()
	s.mu.Lock()
	begun := true
	select {
	case s.turn <- struct{}{}:
	default:
		begun, s.postponed[item.ref] = false, true
	}
	s.mu.Unlock()
	if !begun {
		a.leave(s)
		return nil, nil
	}
	return s, func() { a.end(s) }
}

// end ends a turn, and has checked what was delivered meanwhile.
func (a *Applier) end(s *setState) {
	s.mu.Lock()
	var checks []ref
	for r, is := range s.seen {
		if last, known := s.applied[r]; known && !last.unwanted && s.baseline != nil && is.version > last.version && is.differs(last) {
			s.differing[r] = true
			checks = append(checks, r)
		}
	}
	s.seen = nil
	for r := range s.postponed {
		delete(s.postponed, r)
		checks = append(checks, r)
		break
	}
	<-s.turn
	s.mu.Unlock()
	for _, r := range checks {
		a.drifted.Add(driftKey{s.id, r})
	}
	a.leave(s)
}

// leave forgets a set that has no members.
func (a *Applier) leave(s *setState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.users--
	a.forget(s)
}

// forget requires mu.
func (a *Applier) forget(s *setState) {
	s.mu.Lock()
	empty := len(s.places) == 0
	s.mu.Unlock()
	if s.users == 0 && empty && a.sets[s.id] == s {
		delete(a.sets, s.id)
		a.watchOnly(s, nil)
	}
}

// lose forgets what this process has applied.
func (s *setState) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline, s.applied, s.restores, s.complete = nil, map[ref]applied{}, map[ref]*restores{}, false
}

// drop ends the comparison and the watches of a set. Its members may stay.
func (a *Applier) drop(s *setState) {
	s.lose()
	s.mu.Lock()
	s.places = places{}
	s.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchOnly(s, nil)
	a.forget(s)
}

// Drop drops what is kept of the sets of hooks, but for those that are in use.
func (a *Applier) Drop(of func(hook string) bool) {
	for _, s := range a.states() {
		a.mu.Lock()
		free := s.users == 0
		a.mu.Unlock()
		if hook, _ := s.hookAndSet(a.opts.Instance); free && of(hook) {
			a.drop(s)
		}
	}
}

// states returns all sets that are kept.
func (a *Applier) states() []*setState {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*setState, 0, len(a.sets))
	for _, s := range a.sets {
		all = append(all, s)
	}
	return all
}
