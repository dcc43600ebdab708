package lifecycle

import "testing"

// A hook moves forwards only, but for the end of a pause, can be retired in every state before Draining, and ends once.
func TestTransitions(t *testing.T) {
	for s := Loaded; s <= Gone; s++ {
		to, ok := s.next(retired)
		if wanted := s < Draining; ok != wanted || ok && to != Draining {
			t.Errorf("%s is retired: %s, %t", s, to, ok)
		}
		if _, ok := s.next(drained); ok != (s == Draining) {
			t.Errorf("%s is drained: %t", s, ok)
		}
		for e := startupQueued; e <= drained; e++ {
			if to, ok := s.next(e); ok && to <= s && e != resumed {
				t.Errorf("%s goes back to %s", s, to)
			}
		}
	}
	path := []State{Loaded}
	for _, e := range []step{startupQueued, startupSucceeded, bindingsEnabled, tasksQueued, schedulesEnabled, retired, drained} {
		to, ok := path[len(path)-1].next(e)
		if !ok {
			t.Fatalf("no step after %v", path)
		}
		path = append(path, to)
	}
	if len(path) != int(Gone) { // all but Paused
		t.Errorf("a life is %v", path)
	}
}
