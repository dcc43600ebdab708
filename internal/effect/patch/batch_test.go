package patch

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
)

func p(op effect.Operation, kind, name string) effect.Patch {
	return effect.Patch{Operation: op, Kind: kind, Name: name}
}

func pn(op effect.Operation, kind, namespace, name string) effect.Patch {
	return effect.Patch{Operation: op, Kind: kind, Namespace: namespace, Name: name}
}

// plan returns all waves of a file.
func plan(patches []effect.Patch) (all [][]effect.Patch) {
	for _, stretch := range stretches(patches) {
		all = append(all, waves(stretch, stretch[0].Kind != "ClusterRole")...)
	}
	return all
}

func TestWaves(t *testing.T) {
	for _, test := range []struct {
		name    string
		patches []effect.Patch
		want    string
	}{
		{"different objects of a kind", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.Create, "pod", "b")}, "a b"},
		{"the same object twice",
			[]effect.Patch{p(effect.MergePatch, "Pod", "a"), p(effect.MergePatch, "Pod", "b"), p(effect.MergePatch, "Pod", "a")}, "a b | a"},
		{"another kind", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.Create, "Secret", "b")}, "a | b"},
		{"another operation", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.MergePatch, "Pod", "b")}, "a | b"},
		{"names that the server makes", []effect.Patch{p(effect.Create, "Pod", ""), p(effect.Create, "Pod", "")}, " "},
		{"deletions one by one", []effect.Patch{p(effect.Delete, "Pod", "a"), p(effect.Delete, "Pod", "b")}, "a | b"},
		{"namespaces one by one", []effect.Patch{p(effect.Create, "Namespace", "a"), p(effect.Create, "Namespace", "b")}, "a | b"},
		{"one name in two namespaces", []effect.Patch{pn(effect.MergePatch, "Pod", "x", "a"), pn(effect.MergePatch, "Pod", "y", "a")}, "a a"},
		{"a kind without namespaces, which are ignored",
			[]effect.Patch{pn(effect.MergePatch, "ClusterRole", "x", "a"), pn(effect.MergePatch, "ClusterRole", "y", "a")}, "a | a"},
		{"nothing", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := text(plan(test.patches)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func text(all [][]effect.Patch) string {
	var waves []string
	for _, b := range all {
		var names []string
		for _, p := range b {
			names = append(names, p.Name)
		}
		waves = append(waves, strings.Join(names, " "))
	}
	return strings.Join(waves, " | ")
}

// Waves keep the order of any file, and have different objects.
func TestWavesKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patches := rapid.SliceOf(rapid.Custom(func(t *rapid.T) effect.Patch {
			return effect.Patch{
				Operation: rapid.SampledFrom([]effect.Operation{effect.Create, effect.CreateOrUpdate, effect.MergePatch, effect.Delete}).Draw(t,
					"operation"),
				Kind:      rapid.SampledFrom([]string{"Pod", "ClusterRole", "Namespace"}).Draw(t, "kind"),
				Name:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"),
			}
		})).Draw(t, "patches")
		for i := range patches {
			patches[i].Number = i + 1
		}
		next := 1
		for _, wave := range plan(patches) {
			seen := map[string]bool{}
			for _, p := range wave {
				if p.Number != next {
					t.Fatalf("document %d came instead of %d", p.Number, next)
				}
				next++
				object := fmt.Sprint(p.Namespace, "/", p.Name)
				if p.Kind == "ClusterRole" {
					object = p.Name
				}
				if seen[object] || p.Kind != wave[0].Kind || p.Operation != wave[0].Operation || len(wave) > 1 && barrier(&p) {
					t.Fatalf("%v does not belong into its wave", p)
				}
				seen[object] = true
			}
		}
		if next != len(patches)+1 {
			t.Fatalf("%d patches are left over", len(patches)+1-next)
		}
	})
}
