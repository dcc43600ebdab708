package conversion

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
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

func TestPath(t *testing.T) {
	vectors := []string{"acme.dev/v1alpha1>v1alpha2", "v1alpha2>acme.dev/v1beta1", "acme.dev/v1beta1>acme.dev/v1", "v1>v1beta1"}
	for _, test := range []struct {
		about    string
		hooks    []string
		from, to string
		want     string
	}{
		{"one step", vectors, "acme.dev/v1alpha1", "acme.dev/v1alpha2", "hook-1 acme.dev/v1alpha1>v1alpha2"},
		{"a chain over hooks", vectors, "acme.dev/v1alpha1", "acme.dev/v1",
			"hook-1 acme.dev/v1alpha1>v1alpha2, hook-2 v1alpha2>acme.dev/v1beta1, hook-3 acme.dev/v1beta1>acme.dev/v1"},
		{"the middle of a chain", vectors, "acme.dev/v1alpha2", "acme.dev/v1",
			"hook-2 v1alpha2>acme.dev/v1beta1, hook-3 acme.dev/v1beta1>acme.dev/v1"},
		{"back", vectors, "acme.dev/v1", "acme.dev/v1beta1", "hook-4 v1>v1beta1"},
		{"no way back", vectors, "acme.dev/v1", "acme.dev/v1alpha1", "none"},
		{"another group", vectors, "other.dev/v1beta1", "acme.dev/v1", "none"},
		{"nothing to do", vectors, "acme.dev/v7", "acme.dev/v7", ""},
		{"no version", vectors, "", "acme.dev/v1", "none"},
		// H-19: v1 is the beginning of v1alpha1.
		{"names that begin alike", []string{"v1beta1>v1 v1alpha1>v2"}, "acme.dev/v1beta1", "acme.dev/v2", "none"},
		{"the shortest", []string{"v1>v2 v2>v3", "v3>v4", "v1>v3"}, "acme.dev/v1", "acme.dev/v4", "hook-3 v1>v3, hook-2 v3>v4"},
		{"the first of equals", []string{"v1>v3 v1>v2", "v2>v4 v3>v4"}, "acme.dev/v1", "acme.dev/v4", "hook-1 v1>v3, hook-2 v3>v4"},
		{"the first of the same", []string{"v2>v3", "v1>v2", "acme.dev/v1>v2"}, "acme.dev/v1", "acme.dev/v2", "hook-2 v1>v2"},
		{"cycles", []string{"v1>v2 v2>v1 v2>v2 v2>v3 v3>v1"}, "acme.dev/v3", "acme.dev/v2", "hook-1 v3>v1, hook-1 v1>v2"},
		{"a cycle that leads nowhere", []string{"v1>v2 v2>v1"}, "acme.dev/v1", "acme.dev/v3", "none"},
	} {
		steps := stepsByCRD(hooks(widgets, test.hooks...))
		way, ok := path(steps[widgets], test.from, test.to)
		if got := show(way, ok); got != test.want {
			t.Errorf("%s: %s to %s: got %s, want %s", test.about, test.from, test.to, got, test.want)
		}
	}
	if steps := stepsByCRD(hooks(widgets, vectors...))["gadgets.acme.dev"]; steps != nil {
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
