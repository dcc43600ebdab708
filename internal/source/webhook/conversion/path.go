package conversion

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// step is a conversion that a hook can do, with full versions ("group/version").
type step struct {
	from, to string
	hook     *hook.Hook
	// index is the place of the binding in hook.Conversions, and declared the step as the binding has it.
	index    int
	declared hook.ConversionStep
}

// stepsByCRD collects the steps of all hooks, for each CRD in order of declaration.
func stepsByCRD(hooks []*hook.Hook) map[string][]step {
	all := map[string][]step{}
	for _, h := range hooks {
		for i, binding := range h.Conversions {
			for _, s := range binding.Steps {
				all[binding.CRDName] = append(all[binding.CRDName], step{
					from: full(binding.CRDName, s.From), to: full(binding.CRDName, s.To), hook: h, index: i, declared: s,
				})
			}
		}
	}
	return all
}

// full is a version with its group, which may be left out because all versions of a CRD have the same.
func full(crd, version string) string {
	_, group, _ := strings.Cut(crd, ".")
	if group == "" || strings.Contains(version, "/") {
		return version
	}
	return group + "/" + version
}

// path finds the shortest way from one version to another; of several it takes the one that was declared first. It is
// empty between equal versions, and false tells that there is none.
func path(steps []step, from, to string) ([]step, bool) {
	if from == to {
		return nil, true
	}
	// Versions are looked at in order of distance, and first come is kept, so the first way found is the one.
	by := map[string]int{} // the step that leads to a version on its shortest way
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for i, s := range steps {
			if _, seen := by[s.to]; s.from != queue[0] || seen || s.to == from {
				continue
			}
			by[s.to] = i
			if s.to == to {
				return trace(steps, by, from, to), true
			}
			queue = append(queue, s.to)
		}
	}
	return nil, false
}

func trace(steps []step, by map[string]int, from, to string) []step {
	var way []step
	for at := to; at != from; at = way[len(way)-1].from {
		way = append(way, steps[by[at]])
	}
	slices.Reverse(way)
	return way
}
