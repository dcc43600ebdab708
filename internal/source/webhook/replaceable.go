package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
)

// answerer is the handler of a set of hooks.
type answerer interface {
	http.Handler
	// Answers returns the hooks of a request, and whether their bindings are ready.
	Answers(*http.Request) (hooks []*hook.Hook, ready bool)
}

// version is a handler and its requests in flight, with their runs.
type version struct {
	answerer
	// hooks are those that answer; the handler may have others.
	hooks []*hook.Hook
	// replaced is when a newer one was put.
	replaced time.Time
	requests sync.WaitGroup
}

// ready reports whether the version answers a request.
func (v *version) ready(req *http.Request) bool {
	hooks, ready := v.Answers(req)
	return ready && !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return !slices.Contains(v.hooks, h) })
}

// replaceable is a handler that can be replaced while it serves, path by path: requests go to the newest version that is ready for them.
type replaceable struct {
	// registered are the paths in the cluster. Lingers reports that an earlier version answers those that the newest one lacks, too.
	registered registered
	lingers    bool

	mu sync.Mutex // guards what follows
	// versions are those that answer, last one first. Earlier ones have only the hooks that the newer ones do not replace yet.
	versions []*version
	// ending are versions without a path, which may have requests in flight.
	ending []*version
}

func (r *replaceable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	v := r.enter(req)
	if v == nil {
		http.Error(w, "the hooks are being loaded", http.StatusServiceUnavailable)
		return
	}
	defer v.requests.Done()
	v.ServeHTTP(w, httpserver.CountRuns(req, &v.requests))
}

// enter returns the newest version that is ready for a request, or else the newest, and counts the request; nil if there is none.
func (r *replaceable) enter(req *http.Request) *version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.versions) == 0 {
		return nil
	}
	v := r.versions[max(0, slices.IndexFunc(r.versions, func(v *version) bool { return v.ready(req) }))]
	v.requests.Add(1)
	return v
}

// put adds a version.
func (r *replaceable) put(v *version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.versions) > 0 {
		r.versions[0].replaced = time.Now()
	}
	r.versions = slices.Insert(r.versions, 0, v)
}

// prune leaves earlier versions the hooks that are needed, and returns the versions that end: call end for each.
func (r *replaceable) prune() (ending []*version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []*version
	for i, v := range r.versions {
		hooks := slices.DeleteFunc(slices.Clone(v.hooks), func(h *hook.Hook) bool { return i > 0 && !r.needs(kept, v, h) })
		if len(hooks) < len(v.hooks) {
			ending = append(ending, v)
			v = &version{answerer: v.answerer, hooks: hooks, replaced: v.replaced}
		}
		if i == 0 || len(hooks) > 0 {
			kept = append(kept, v)
		}
	}
	r.versions, r.ending = kept, append(r.ending, ending...)
	return ending
}

// needs reports whether a hook of a version answers requests for which no newer one is ready: the newest has a hook for their path, which
// waits, or the path is registered.
func (r *replaceable) needs(newer []*version, v *version, h *hook.Hook) bool {
	return slices.ContainsFunc(requestsFor(h), func(req *http.Request) bool {
		known, _ := newer[0].Answers(req)
		return v.ready(req) && !slices.ContainsFunc(newer, func(n *version) bool { return n.ready(req) }) &&
			(len(known) > 0 || r.lingers && r.registered.has(req.URL.Path, true))
	})
}

// requestsFor returns a request for each path of a hook.
func requestsFor(h *hook.Hook) (all []*http.Request) {
	for a := range h.Bindings() {
		method, path := http.MethodPost, ""
		switch a.Kind {
		case hook.OnValidating, hook.OnMutating:
			path = admission.Path(h, a)
		case hook.OnConversion:
			path = "/" + h.Conversions[a.Index].CRDName
		case hook.OnHTTP:
			method, path = h.HTTP[a.Index].Method, h.HTTP[a.Index].Path
		}
		all = append(all, &http.Request{Method: method, URL: &url.URL{Path: path}})
	}
	return all
}

// overdue reports the hooks in whose place earlier ones answer because they are stuck: they have the path, or the name.
func (r *replaceable) overdue(stuck func(*hook.Hook) string) (all []Unregistered) {
	versions := r.list()
	for i, v := range versions {
		for _, h := range v.hooks {
			for _, next := range versions[0].hooks {
				why := stuck(next)
				if i == 0 || why == "" || next.Name != h.Name && !slices.ContainsFunc(requestsFor(h), func(req *http.Request) bool {
					hooks, _ := versions[0].Answers(req)
					return slices.Contains(hooks, next)
				}) {
					continue
				}
				all = append(all, Unregistered{Hooks: []string{next.Name}, Subject: next.Name, Err: errors.New(why), Left: fmt.Sprintf(
					"the version of hook %q from before the reload at %s answers its requests", h.Name, v.replaced.Format(time.RFC3339))})
			}
		}
	}
	return all
}

// list returns the versions that answer.
func (r *replaceable) list() []*version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions)
}

// end waits until a version has no requests.
func (r *replaceable) end(v *version) {
	v.requests.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = slices.DeleteFunc(r.ending, func(other *version) bool { return other == v })
}

// holds reports whether requests for a hook may be answered, or are.
func (r *replaceable) holds(h *hook.Hook) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(slices.Concat(r.versions, r.ending), func(v *version) bool { return slices.Contains(v.hooks, h) })
}
