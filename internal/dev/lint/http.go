package lint

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// prefixedPaths finds HTTP bindings without allow at paths that default ClusterRoles grant to every client: their Roles need other paths.
func prefixedPaths(s script.Source, h *hook.Hook) (findings []Finding) {
	for i := range h.HTTP {
		b := &h.HTTP[i]
		if path := hook.AccessPath(b.Path); b.Allow == nil && path != b.Path {
			findings = append(findings, finding(s, 1, 1, Note,
				fmt.Sprintf("http[%d]: Kubernetes grants %s to every client, so that a Role of clients needs the nonResourceURL %s", i, b.Path, path),
				"or list the clients in allow"))
		}
	}
	return findings
}
