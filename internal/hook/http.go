package hook

import (
	"strings"
	"time"
)

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

// Route is equal for bindings that match the same requests: the method, and the path without the names of variables.
func (b *HTTP) Route() string {
	route := b.Method + " "
	for _, s := range b.Segments {
		if s.Variable {
			s.Text = "{}"
		}
		route += "/" + s.Text
	}
	return route
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

// AccessPrefix begins the paths about which RBAC is asked instead of those that default ClusterRoles of Kubernetes grant to every client.
const AccessPrefix = "/hooks.shell-operator"

// AccessPath is the path of the nonResourceURL that allows a request: its path, or with AccessPrefix if a default ClusterRole
// grants that to all users or all ServiceAccounts: system:discovery, system:public-info-viewer, system:service-account-issuer-discovery.
func AccessPath(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "api", "apis", "openapi", "version", "healthz", "livez", "readyz", ".well-known", "openid":
		return AccessPrefix + path
	}
	return path
}
