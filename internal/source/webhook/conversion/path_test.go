package conversion

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

const widgets = "widgets.acme.dev"

// hooks makes one hook with one binding for each text: "from>to from>to".
func hooks(crd string, texts ...string) []*hook.Hook {
	var all []*hook.Hook
	for i, text := range texts {
		binding := hook.Conversion{Binding: hook.Binding{Name: "b"}, CRDName: crd}
		for word := range strings.FieldsSeq(text) {
			from, to, _ := strings.Cut(word, ">")
			binding.Steps = append(binding.Steps, hook.ConversionStep{From: from, To: to})
		}
		all = append(all, &hook.Hook{Name: fmt.Sprintf("hook-%d", i+1), Conversions: []hook.Conversion{binding}})
	}
	return all
}

// show is a path as text: "hook from>to, …".
func show(way []step, ok bool) string {
	if !ok {
		return "none"
	}
	var words []string
	for _, s := range way {
		words = append(words, fmt.Sprintf("%s %s>%s", s.hook.Name, s.declared.From, s.declared.To))
	}
	return strings.Join(words, ", ")
}

// TestPath runs testdata/paths.txt: the steps of hooks, with | between the hooks, and below the dashes the way of a conversion. "-" is no
// version.
func TestPath(t *testing.T) {
	golden.Scripts(t, "testdata/paths.txt", func(_ *testing.T, script string) string {
		var steps map[string][]step
		var way string
		return golden.Blocks(script, func(words []string) {
			if words[0] == "hooks" {
				steps = stepsByCRD(hooks(widgets, strings.Split(strings.Join(words[1:], " "), " | ")...))
				return
			}
			way = cmp.Or(show(path(steps[widgets], strings.Trim(words[1], "-"), words[2])), "nothing to do") + "\n"
		}, func() string { return way })
	})
	if steps := stepsByCRD(hooks(widgets, "v1>v2"))["gadgets.acme.dev"]; steps != nil {
		t.Errorf("another CRD has steps: %v", steps)
	}
}

// plainPath tries all ways in order of declaration, shorter ones first.
func plainPath(steps []step, from, to string) ([]step, bool) {
	var ways func(from string, length int, seen []string) ([]step, bool)
	ways = func(from string, length int, seen []string) ([]step, bool) {
		if length == 0 {
			return nil, from == to
		}
		for _, s := range steps {
			if s.from != from || slices.Contains(seen, s.to) {
				continue
			}
			if rest, ok := ways(s.to, length-1, append(slices.Clone(seen), s.to)); ok {
				return append([]step{s}, rest...), true
			}
		}
		return nil, false
	}
	for length := range 8 {
		if way, ok := ways(from, length, []string{from}); ok {
			return way, true
		}
	}
	return nil, false
}

func TestPathIsThePlainOne(t *testing.T) {
	version := rapid.SampledFrom([]string{"v1", "v2", "v3", "v4", "v5", "v6", "acme.dev/v1", "acme.dev/v2", "acme.dev/v3", "other.dev/v1"})
	declared := rapid.Custom(func(t *rapid.T) string { return version.Draw(t, "from") + ">" + version.Draw(t, "to") })
	rapid.Check(t, func(t *rapid.T) {
		steps := stepsByCRD(hooks(widgets, rapid.SliceOfN(declared, 0, 14).Draw(t, "steps")...))[widgets]
		from, to := full(widgets, version.Draw(t, "from")), full(widgets, version.Draw(t, "to"))
		way, ok := path(steps, from, to)
		plain, plainOK := plainPath(steps, from, to)
		if got, want := show(way, ok), show(plain, plainOK); got != want {
			t.Fatalf("%s to %s: got %s, want %s", from, to, got, want)
		}
	})
}
