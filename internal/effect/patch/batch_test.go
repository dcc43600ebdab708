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

func TestBatches(t *testing.T) {
	for _, test := range []struct {
		name    string
		patches []effect.Patch
		want    string
	}{
		{"different objects of a kind", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.Create, "pod", "b")}, "a b"},
		{"the same object twice", []effect.Patch{p(effect.MergePatch, "Pod", "a"), p(effect.MergePatch, "Pod", "b"), p(effect.MergePatch, "Pod", "a")}, "a b | a"},
		{"another kind", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.Create, "Secret", "b")}, "a | b"},
		{"another operation", []effect.Patch{p(effect.Create, "Pod", "a"), p(effect.MergePatch, "Pod", "b")}, "a | b"},
		{"names that the server makes", []effect.Patch{p(effect.Create, "Pod", ""), p(effect.Create, "Pod", "")}, " "},
		{"deletions one by one", []effect.Patch{p(effect.Delete, "Pod", "a"), p(effect.Delete, "Pod", "b")}, "a | b"},
		{"namespaces one by one", []effect.Patch{p(effect.Create, "Namespace", "a"), p(effect.Create, "Namespace", "b")}, "a | b"},
		{"nothing", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := text(batches(test.patches)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func text(all [][]effect.Patch) string {
	var batches []string
	for _, b := range all {
		var names []string
		for _, p := range b {
			names = append(names, p.Name)
		}
		batches = append(batches, strings.Join(names, " "))
	}
	return strings.Join(batches, " | ")
}

// Whatever the file says, the order of it is kept, and what is made at the same time are different objects.
func TestBatchesKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patches := rapid.SliceOf(rapid.Custom(func(t *rapid.T) effect.Patch {
			return effect.Patch{
				Operation: rapid.SampledFrom([]effect.Operation{effect.Create, effect.CreateOrUpdate, effect.MergePatch, effect.Delete}).Draw(t, "operation"),
				Kind:      rapid.SampledFrom([]string{"Pod", "Secret", "Namespace"}).Draw(t, "kind"),
				Name:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"),
			}
		})).Draw(t, "patches")
		for i := range patches {
			patches[i].Number = i + 1
		}
		next := 1
		for _, batch := range batches(patches) {
			seen := map[string]bool{}
			for _, p := range batch {
				if p.Number != next {
					t.Fatalf("document %d came instead of %d", p.Number, next)
				}
				next++
				object := fmt.Sprint(p.Namespace, "/", p.Name)
				if seen[object] || p.Kind != batch[0].Kind || p.Operation != batch[0].Operation || len(batch) > 1 && barrier(&p) {
					t.Fatalf("%v does not belong into its batch", p)
				}
				seen[object] = true
			}
		}
		if next != len(patches)+1 {
			t.Fatalf("%d patches are left over", len(patches)+1-next)
		}
	})
}
