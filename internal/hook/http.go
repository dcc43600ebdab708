package hook

import "time"

// HTTP is a binding to HTTP requests.
type HTTP struct {
	Binding
	// Method is one of GET, HEAD, POST, PUT, PATCH and DELETE.
	Method string
	// Path is the pattern as the author wrote it, and Segments what it is made of: none for "/".
	Path     string
	Segments []Segment
	// Headers are those that the hook gets beside the usual ones, in their canonical form.
	Headers []string
	// Timeout ends a run for a request. Nil means the operator's default.
	Timeout *time.Duration
	// Allow are those who may ask; nil leaves it to the cluster.
	Allow *Allow
}

// Segment is one part of a path between slashes.
type Segment struct {
	// Text is what has to stand there, or the name of a Variable, for which one non-empty segment may stand.
	Text     string
	Variable bool
}

// Allow lists users and groups of the cluster. One that fits is enough, and there is at least one.
type Allow struct {
	Users, Groups []string
}
