package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
)

// Health is the state behind /readyz: whether the operator answers correctly, and what it is waiting for.
//
//   - A binding answers reviews, conversions or HTTP requests when the onStartup run of its hook has succeeded and the snapshots that it
//     includes are filled. A snapshot whose kind or permission is missing, or whose list fails for 5 s, is as it is, as upstream: a policy
//     must not be off. It holds up no other binding.
//   - A conversion does not wait for a list that needs conversions by a hook of this operator.
//   - The operator is ready when each of these bindings answers, or waits for such a list, or because something is in trouble: the API
//     server does not answer, or an onStartup run fails. Other hooks that wait are notes.
//   - A ready operator stays ready, and a binding that answers does so: a hook that is added later does not take the others out of service.
//   - What is missing is read when it is reported, so a permission that has been granted is no longer named.
//   - All methods may be called concurrently.
type Health struct {
	// missing lists what keeps the kubernetes bindings of a hook from being enabled at this moment, one entry per binding
	// and cause. It is called without the lock.
	missing func(*hook.Hook) []string

	mu sync.Mutex
	// active are the hooks of the current set.
	active map[*hook.Hook]*progress
	loaded bool
	// role is a note about leadership; empty without leader election. A standby runs no hooks, so it does not wait for
	// onStartup runs: the leader has prepared what is needed.
	role    string
	standby bool
	// rejected are the causes of the last reload that failed, by hook.
	rejected map[string]hookset.Rejection
	// answering are the bindings that can answer, also of earlier sets. changed is closed when there are more.
	answering map[caller]bool
	changed   chan struct{}
	// settled reports that the operator has been ready.
	settled bool
}

// caller is a binding that answers requests.
type caller struct {
	hook *hook.Hook
	hook.Address
}

// progress is what an active hook waits for.
type progress struct {
	// held is why its start has not begun; empty if it has.
	held string
	// enabling: its kubernetes bindings are not all enabled yet. starting: it serves, and its onStartup run has not succeeded.
	enabling, starting bool
	// filling are the kubernetes bindings that requests include and whose initial lists are on their way, with their resources, such as
	// "crontabs.example.com", as far as these are known.
	filling map[int]string
	// failing: its onStartup run fails. Hooks that start later wait for it.
	failing bool
}

// NewHealth returns the health of an operator that has not loaded its hooks. Missing lists what keeps the kubernetes bindings of a
// hook from being enabled.
func NewHealth(missing func(*hook.Hook) []string) *Health {
	return &Health{missing: missing, answering: map[caller]bool{}, changed: make(chan struct{})}
}

const (
	isEnabling = "its kubernetes bindings are being enabled"
	isStarting = "its onStartup run has not succeeded yet"
)

// Expect sets the active hooks, at the start and after a reload. Hooks that were active before keep their progress.
func (s *Health) Expect(hooks []*hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	active := map[*hook.Hook]*progress{}
	for _, h := range hooks {
		if active[h] = s.active[h]; active[h] == nil {
			active[h] = &progress{enabling: len(h.Kubernetes) > 0, starting: h.OnStartup != nil && serves(h), filling: map[int]string{}}
			for i := range h.Kubernetes {
				if h.Answering(i) {
					active[h].filling[i] = ""
				}
			}
		}
	}
	s.active, s.loaded = active, true
	s.check()
}

// record changes the progress of a hook, if it is active.
func (s *Health) record(h *hook.Hook, change func(*progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.active[h]; p != nil {
		change(p)
		s.check()
	}
}

// Hold records why the start of a hook has not begun; empty means that it has.
func (s *Health) Hold(h *hook.Hook, why string) { s.record(h, func(p *progress) { p.held = why }) }

// Started records that the onStartup run of a hook has succeeded.
func (s *Health) Started(h *hook.Hook) {
	s.record(h, func(p *progress) { p.starting, p.failing = false, false })
}

// StartupFailed records that the onStartup run of a hook has failed, and is retried.
func (s *Health) StartupFailed(h *hook.Hook) {
	s.record(h, func(p *progress) { p.failing = true; s.notify() })
}

// Listing records the resource of a kubernetes binding, whose initial list begins.
func (s *Health) Listing(h *hook.Hook, index int, resource string) {
	s.record(h, func(p *progress) {
		if _, is := p.filling[index]; is {
			p.filling[index] = resource
		}
	})
}

// Answerable records that requests no longer wait for a kubernetes binding: it is enabled, or it cannot be.
func (s *Health) Answerable(h *hook.Hook, index int) {
	s.record(h, func(p *progress) { delete(p.filling, index) })
}

// Enabled records that all kubernetes bindings of a hook are enabled.
func (s *Health) Enabled(h *hook.Hook) {
	s.record(h, func(p *progress) { p.enabling, p.filling = false, nil })
}

// Enabling records that more kubernetes bindings of a hook are being enabled. It answers as before.
func (s *Health) Enabling(h *hook.Hook) {
	s.record(h, func(p *progress) { p.enabling = len(h.Kubernetes) > 0 })
}

// Answers reports whether a binding can answer requests.
func (s *Health) Answers(h *hook.Hook, a hook.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answering[caller{h, a}]
}

// Changed is closed when more bindings can answer, or an onStartup run fails.
func (s *Health) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Forget releases a hook of an earlier set that answers no more.
func (s *Health) Forget(h *hook.Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.answering, func(c caller, _ bool) bool { return c.hook == h })
}

// Reloaded sets the causes, by hook, for which the last reload was rejected; none means that it succeeded.
func (s *Health) Reloaded(rejected map[string]hookset.Rejection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = rejected
}

// Rejected are the causes of the last reload that failed, by hook; the name is empty for causes that no single hook has.
func (s *Health) Rejected() map[string]hookset.Rejection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejected
}

// check notes the bindings that can answer, and that the operator is ready when none waits.
func (s *Health) check() {
	waiting, more := false, false
	for h, p := range s.active {
		for a, b := range h.Bindings() {
			switch c := (caller{h, a}); {
			case a.Kind.Caller() == "" || s.answering[c]:
			case p.starting && !s.standby || s.fills(p, b.Includes, a.Kind == hook.OnConversion):
				waiting = true
			default:
				s.answering[c], more = true, true
			}
		}
	}
	if more {
		s.notify()
	}
	s.settled = s.settled || s.loaded && !waiting
}

func (s *Health) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Stuck is why bindings of a hook that wait do not become ready by themselves: an onStartup run fails, of the hook or before it, or what
// missing returns. It is empty if they may.
func (s *Health) Stuck(h *hook.Hook) string {
	s.mu.Lock()
	p, failing := s.active[h], ""
	for other, q := range s.active {
		if q.failing && (failing == "" || other == h) {
			failing = other.Name
		}
	}
	waits := p != nil && (p.failing || p.starting || len(p.filling) > 0)
	s.mu.Unlock()
	switch {
	case !waits:
		return ""
	case failing != "":
		return fmt.Sprintf("the onStartup run of hook %q fails", failing)
	}
	return strings.Join(s.missing(h), "; ")
}

// fills reports whether the initial list of a kubernetes binding is on its way, without those that need conversions by a hook if
// independent.
func (s *Health) fills(p *progress, indexes []int, independent bool) bool {
	return slices.ContainsFunc(indexes, func(index int) bool {
		resource, filling := p.filling[index]
		return filling && !(independent && s.converts(resource))
	})
}

// converts reports whether a hook converts a resource.
func (s *Health) converts(resource string) bool {
	for h := range s.active {
		if slices.ContainsFunc(h.Conversions, func(c hook.Conversion) bool { return c.CRDName == resource }) {
			return true
		}
	}
	return false
}

// SetRole sets a note about leadership, and whether this replica is a standby.
func (s *Health) SetRole(note string, standby bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role, s.standby = note, standby
	s.check()
}

// Waiting is the step of the start that a hook has not completed, or empty.
func (s *Health) Waiting(h *hook.Hook) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.active[h]; {
	case p == nil:
	case p.held != "":
		return p.held
	case p.enabling:
		return isEnabling
	case p.starting && !s.standby:
		return isStarting
	}
	return ""
}

// Ready returns why the operator is not ready, or nil, and notes about the role and hooks that wait.
func (s *Health) Ready() (notes []string, err error) {
	s.mu.Lock()
	if !s.loaded {
		s.mu.Unlock()
		return nil, errors.New("hooks are being loaded")
	}
	// begin counts the serving hooks that only begin: no trouble is known that they wait for.
	begin, failing := 0, false
	enabling := map[*hook.Hook]bool{} // and whether it counts in begin for that
	for h, p := range s.active {
		starting, fills := p.starting && !s.standby, s.fills(p, slices.Collect(maps.Keys(p.filling)), true)
		if starting || fills {
			begin++
		}
		failing = failing || p.failing
		switch {
		case p.held != "":
			notes = append(notes, waitingNote(h, p.held))
		case starting:
			notes = append(notes, waitingNote(h, isStarting))
		case p.enabling:
			enabling[h] = fills
		}
	}
	role, settled := s.role, s.settled
	s.mu.Unlock()

	for h, begins := range enabling {
		why := isEnabling
		if missing := s.missing(h); len(missing) > 0 {
			why = strings.Join(missing, "; ")
			if begins {
				begin--
			}
		}
		notes = append(notes, waitingNote(h, why))
	}
	slices.Sort(notes)
	if role != "" {
		notes = slices.Insert(notes, 0, role)
	}
	if begin > 0 && !failing && !settled {
		return notes, fmt.Errorf("not ready: hooks with webhook or HTTP bindings wait for their onStartup runs or kubernetes bindings (%d)",
			begin)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	return notes, nil
}

func waitingNote(h *hook.Hook, why string) string {
	return fmt.Sprintf("hook %q waits: %s", h.Name, why)
}

// serves reports whether the API server or HTTP clients call the hook.
func serves(h *hook.Hook) bool {
	return h.Count(func(k hook.Kind) bool { return k.Caller() != "" }) > 0
}
