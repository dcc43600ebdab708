package webhook

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// knownFor is how long a path is known that is no longer registered: API servers follow a registration with a delay.
const knownFor = time.Minute

// registered are the paths that the registrations of a server have, as its registrars read them. It is safe for concurrent use.
type registered struct {
	mu sync.Mutex
	// paths has for each object in the cluster its paths, and when each was removed from it; zero while it is there.
	paths map[string]map[string]time.Time
	// open are the objects that cannot be read, because a permission is missing: their paths are those without a secret.
	open map[string]bool
}

// set replaces the paths of an object.
func (r *registered) set(object string, paths []string, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths == nil {
		r.paths, r.open = map[string]map[string]time.Time{}, map[string]bool{}
	}
	now, next := time.Now(), map[string]time.Time{}
	for path, removed := range r.paths[object] {
		if removed.IsZero() {
			removed = now
		}
		if now.Sub(removed) < knownFor {
			next[path] = removed
		}
	}
	for _, path := range paths {
		next[path] = time.Time{}
	}
	r.paths[object], r.open[object] = next, open
}

// has reports whether a path is registered, or was a moment ago, perhaps with any token at its end. A proxy may have removed its beginning.
func (r *registered) has(path string, anyToken bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, paths := range r.paths {
		for p, removed := range paths {
			if strings.HasPrefix(path, "/") && (strings.HasSuffix(p, path) || anyToken && strings.Contains(p, path+"/")) &&
				(removed.IsZero() || time.Since(removed) < knownFor) {
				return true
			}
		}
	}
	return false
}

// isOpen reports whether the paths of an object are served without a secret.
func (r *registered) isOpen(object string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[object]
}

// knows reports whether a client that sends a path and its token, or none, knows what is registered.
func (s *served) knows(path, token string) bool {
	r := &s.handler.registered
	return s.paths.Valid(path, token) || r.has(path, false) || token != "" && r.has(path+"/"+token, false)
}

// unprotected adds to the error of a registration that its paths are served without a secret.
func (s *served) unprotected(object string, err error) error {
	if err == nil || s.clientCA || !s.handler.registered.isOpen(object) {
		return err
	}
	return fmt.Errorf("%w. Until then its paths are served without a secret: every client of the port can send reviews", err)
}
