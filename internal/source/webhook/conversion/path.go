package conversion

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// step is a declared conversion, with full versions ("group/version").
type step struct {
	from, to string
	hook     *hook.Hook
	// index is the number of the binding in hook.Conversions, and declared the step as the binding has it.
	index    int
	declared hook.ConversionStep
}

// stepsByCRD collects the steps of all hooks, per CRD in order of declaration.
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

// waiting returns the hook of a step that is not ready, or nil.
func waiting(steps []step, ready func(*hook.Hook, hook.Address) bool) *hook.Hook {
	for _, s := range steps {
		if !ready(s.hook, hook.Address{Kind: hook.OnConversion, Index: s.index}) {
			return s.hook
		}
	}
	return nil
}

// full adds the group to a short version: all versions of a CRD have the same.
func full(crd, version string) string {
	_, group, _ := strings.Cut(crd, ".")
	if group == "" || strings.Contains(version, "/") {
		return version
	}
	return group + "/" + version
}

// path returns the shortest path from one version to another; of equally short ones, the first declared. It is empty between
// equal versions. ok is false if there is none.
func path(steps []step, from, to string) ([]step, bool) {
	if from == to {
		return nil, true
	}
	// A breadth-first search: the first step to reach a version is the one of its shortest path.
	by := map[string]int{} // the last step of the shortest path to a version
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
