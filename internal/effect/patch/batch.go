package patch

import (
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// batches splits patches into runs of neighbours that may be made at the same time. Joined together they are the
// patches in their order.
func batches(patches []effect.Patch) [][]effect.Patch {
	var all [][]effect.Patch
	var objects map[[2]string]bool
	start := 0
	for i := range patches {
		p := &patches[i]
		object := [2]string{p.Namespace, p.Name}
		if i == 0 || barrier(p) || !alike(p, &patches[i-1]) || objects[object] {
			if i > 0 {
				all = append(all, patches[start:i])
			}
			start, objects = i, map[[2]string]bool{}
		}
		if p.Name != "" { // the server makes a new name for each other
			objects[object] = true
		}
	}
	if len(patches) > 0 {
		all = append(all, patches[start:])
	}
	return all
}

func alike(a, b *effect.Patch) bool {
	return a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource && strings.EqualFold(a.Kind, b.Kind)
}

// barrier tells whether later patches may need that this one is done: a deletion that waits, and the kinds that
// others live in.
func barrier(p *effect.Patch) bool {
	if p.Operation.Deletes() {
		return true
	}
	switch strings.ToLower(p.Kind) {
	case "namespace", "namespaces", "ns", "customresourcedefinition", "customresourcedefinitions", "crd", "crds":
		return true
	}
	return false
}
