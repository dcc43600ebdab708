package patch

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// stretches splits patches into stretches of adjacent ones with the same operation on the same kind. Concatenated they
// are the patches in their order.
func stretches(patches []effect.Patch) [][]effect.Patch {
	var all [][]effect.Patch
	start := 0
	for i := range patches {
		if i > 0 && (barrier(&patches[i]) || !alike(&patches[i], &patches[i-1])) {
			all = append(all, patches[start:i])
			start = i
		}
	}
	if len(patches) > 0 {
		all = append(all, patches[start:])
	}
	return all
}

// waves splits a stretch into waves whose patches can be applied concurrently: no object is in a wave twice. Of a kind
// without namespaces the name alone identifies an object, whatever namespace the hook has written.
func waves(stretch []effect.Patch, namespaced bool) [][]effect.Patch {
	var all [][]effect.Patch
	start, objects := 0, map[[2]string]bool{}
	for i, p := range stretch {
		object := [2]string{p.Namespace, p.Name}
		if !namespaced {
			object[0] = ""
		}
		if objects[object] {
			all = append(all, stretch[start:i])
			start, objects = i, map[[2]string]bool{}
		}
		if p.Name != "" { // the API server generates a new name for each
			objects[object] = true
		}
	}
	return append(all, stretch[start:])
}

func alike(a, b *effect.Patch) bool {
	return a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource && strings.EqualFold(a.Kind, b.Kind)
}

// barriers are kinds that other objects live in, or are defined by.
var barriers = []string{"namespace", "namespaces", "ns", "customresourcedefinition", "customresourcedefinitions", "crd", "crds"}

// barrier reports whether later patches may depend on this one: they wait for it.
func barrier(p *effect.Patch) bool {
	return p.Operation.Deletes() || slices.Contains(barriers, strings.ToLower(p.Kind))
}
