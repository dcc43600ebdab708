package telemetry

import (
	"iter"
	"maps"
	"slices"
)

// sorted yields the entries of a map in the order of their names.
func sorted(m map[string]any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
