// Package health knows whether those who ask the operator get right answers, and what keeps it from that.
//
// Callers may rely on this:
//   - The operator is ready when the hooks that answer reviews and HTTP requests have prepared what they need in their
//     onStartup runs, and their snapshots are filled. Other hooks that wait are notes.
//   - Once ready it stays ready: hooks that come later keep nobody from asking the others.
//   - All methods may be called at any time.
package health

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Health is what /readyz tells.
type Health struct {
	mu sync.Mutex
	// waiting are the hooks whose kubernetes bindings are not enabled yet, with what they wait for.
	waiting map[*hook.Hook]error
	// starting are the hooks that answer and whose onStartup runs have not succeeded.
	starting map[*hook.Hook]bool
	loaded   bool
	// role is a note about who runs the hooks; empty when there is no question. A standby runs none, so it waits for no
	// onStartup runs: those of the leader have prepared what is needed.
	role    string
	standby bool
	// reload is why the hooks could not be loaded anew, or empty.
	reload string
	// settled tells that no hook that answered at the start waits any more. Hooks that come later make nobody unready: others
	// go on answering.
	settled bool
	// all is closed when no hook that answers waits any more.
	all chan struct{}
}

// New is the health of an operator that has not loaded its hooks.
func New() *Health {
	return &Health{waiting: map[*hook.Hook]error{}, starting: map[*hook.Hook]bool{}, all: make(chan struct{})}
}

var (
	errEnabling = errors.New("its kubernetes bindings are being enabled")
	errStarting = errors.New("its onStartup run has not succeeded yet")
)

// Expect is told of the hooks when they are loaded.
func (s *Health) Expect(hooks []*hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	for _, h := range hooks {
		if len(h.Kubernetes) > 0 {
			s.waiting[h] = errEnabling
		}
		if h.OnStartup != nil && answers(h) {
			s.starting[h] = true
		}
	}
	s.check()
}

// Answering is closed when all hooks that answer can do so.
func (s *Health) Answering() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// Succeed is told of hooks that have been replaced. What is known of those that stay stays; enabled tells how far others
// have come.
func (s *Health) Succeed(hooks []*hook.Hook, enabled, started func(*hook.Hook) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, starting := s.waiting, s.starting
	s.waiting, s.starting = map[*hook.Hook]error{}, map[*hook.Hook]bool{}
	for _, h := range hooks {
		if len(h.Kubernetes) > 0 && !enabled(h) {
			s.waiting[h] = errEnabling
			if err := waiting[h]; err != nil {
				s.waiting[h] = err
			}
		}
		if h.OnStartup != nil && answers(h) && (starting[h] || !started(h)) {
			s.starting[h] = true
		}
	}
	select {
	case <-s.all:
		s.all = make(chan struct{})
	default:
	}
	s.check()
}

// Reloaded tells why the hooks could not be loaded anew; empty means that they were.
func (s *Health) Reloaded(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reload = why
}

// NotReloaded is why the hooks are not those of the files, or empty.
func (s *Health) NotReloaded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reload
}

// check closes all when it is time.
func (s *Health) check() {
	if !s.loaded || len(s.starting) > 0 && !s.standby {
		return
	}
	for h := range s.waiting {
		if answers(h) {
			return
		}
	}
	select {
	case <-s.all:
	default:
		s.settled = true
		close(s.all)
	}
}

// Trouble is told why the kubernetes bindings of a hook could not be enabled yet.
func (s *Health) Trouble(h *hook.Hook, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[h] = err
}

// Started is told when the onStartup run of a hook has succeeded.
func (s *Health) Started(h *hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starting, h)
	s.check()
}

// Enabled is told when all kubernetes bindings of a hook are enabled.
func (s *Health) Enabled(h *hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, h)
	s.check()
}

// SetRole is told who runs the hooks, in a note; and whether this replica stands by.
func (s *Health) SetRole(note string, standby bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role, s.standby = note, standby
	s.check()
}

// Reason is why a hook waits, or empty.
func (s *Health) Reason(h *hook.Hook) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.waiting[h]; err != nil {
		return err.Error()
	}
	if s.starting[h] && !s.standby {
		return errStarting.Error()
	}
	return ""
}

// Ready tells why the operator is not ready, or nil; and what is worth knowing although it is.
func (s *Health) Ready() (notes []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		return nil, errors.New("hooks are being loaded")
	}
	answering := 0
	for h := range s.starting {
		if s.standby {
			break
		}
		answering++
		notes = append(notes, fmt.Sprintf("hook %q waits: %v", h.Name, errStarting))
	}
	for h, reason := range s.waiting {
		if s.starting[h] && !s.standby {
			continue
		}
		notes = append(notes, fmt.Sprintf("hook %q waits: %v", h.Name, reason))
		if answers(h) {
			answering++
		}
	}
	slices.Sort(notes)
	if s.role != "" {
		notes = slices.Insert(notes, 0, s.role)
	}
	if s.reload != "" {
		notes = append(notes, "the hooks could not be loaded anew, those from before go on: "+s.reload)
	}
	if answering > 0 && !s.settled {
		err = fmt.Errorf("not ready: hooks that answer wait for their onStartup runs or kubernetes bindings (%d)", answering)
	}
	return notes, err
}

// answers tells whether somebody asks the hook.
func answers(h *hook.Hook) bool {
	return len(h.Validating)+len(h.Mutating)+len(h.Conversions)+len(h.HTTP) > 0
}
