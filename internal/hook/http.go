package hook

import "time"

// HTTP is a binding to HTTP requests.
type HTTP struct {
	Binding
	// Method is one of GET, HEAD, POST, PUT, PATCH and DELETE.
	Method string
	// Path is the pattern as configured, Segments its parts: none for "/".
	Path     string
	Segments []Segment
	// Headers are additional request headers that are passed to the hook, in canonical form.
	Headers []string
	// Timeout limits the time of a request. Nil means the operator's default.
	Timeout *time.Duration
	// Allow lists the permitted clients; nil leaves the decision to RBAC.
	Allow *Allow
}

// Segment is one part of a path between slashes.
type Segment struct {
	// Text is the literal segment, or the name of a Variable, which matches one non-empty segment.
	Text     string
	Variable bool
}

// Allow lists users and groups of the cluster, at least one. One match is enough.
type Allow struct {
	Users, Groups []string
}
