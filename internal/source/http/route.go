package http

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// route is a binding and its requests.
type route struct {
	hook    *hook.Hook
	index   int
	binding *hook.HTTP
	timeout time.Duration
}

func (r *route) address() hook.Address { return hook.Address{Kind: hook.OnHTTP, Index: r.index} }

// table has the routes by precedence.
type table []*route

func newTable(hooks []*hook.Hook) (t table) {
	for _, h := range hooks {
		for i := range h.HTTP {
			r := &route{hook: h, index: i, binding: &h.HTTP[i], timeout: 30 * time.Second}
			if own := r.binding.Timeout; own != nil {
				r.timeout = *own
			}
			t = append(t, r)
		}
	}
	slices.SortStableFunc(t, func(a, b *route) int { return bySegments(a.binding.Segments, b.binding.Segments) })
	return t
}

// bySegments orders a literal before a variable, from left to right. It is 0 for equivalent paths.
func bySegments(a, b []hook.Segment) int {
	return slices.CompareFunc(a, b, func(a, b hook.Segment) int {
		switch {
		case a.Variable && b.Variable:
			return 0
		case a.Variable:
			return 1
		case b.Variable:
			return -1
		}
		return strings.Compare(a.Text, b.Text)
	})
}

// find returns the route of a request, or nil and the methods of the path; none if there is no such path.
func (t table) find(method string, segments []string) (found *route, allowed []string) {
	for _, r := range t {
		if !r.matches(segments) {
			continue
		}
		allowed = append(allowed, r.binding.Method)
		switch {
		case r.binding.Method == method && (found == nil || found.binding.Method != method):
			// A binding for HEAD takes precedence over one for GET of the same path, but not over a more specific path.
			if found == nil || bySegments(found.binding.Segments, r.binding.Segments) == 0 {
				found = r
			}
		case method == http.MethodHead && r.binding.Method == http.MethodGet && found == nil:
			found = r
		}
	}
	if len(allowed) > 0 {
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(allowed, http.MethodHead)
		}
		allowed = append(allowed, http.MethodOptions)
		slices.Sort(allowed)
		allowed = slices.Compact(allowed)
	}
	return found, allowed
}

func (r *route) matches(segments []string) bool {
	if len(segments) != len(r.binding.Segments) {
		return false
	}
	for i, s := range r.binding.Segments {
		if !s.Variable && s.Text != segments[i] {
			return false
		}
	}
	return true
}

// values are the path values by variable.
func (r *route) values(segments []string) map[string]string {
	values := map[string]string{}
	for i, s := range r.binding.Segments {
		if s.Variable {
			values[s.Text] = segments[i]
		}
	}
	return values
}
