package simulate

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
)

// Diff is what an operation changes in an object.
type Diff struct {
	Object string   `json:"object"`
	Lines  []string `json:"lines"`
}

// noise are fields of metadata that differ between any two versions.
var noise = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"}

// objectDiff compares two versions of an object; nil is none. Values of Secrets are masked. The parent of a set is the operator's own
// record, and has no differences.
func objectDiff(before, after []byte) (d Diff, err error) {
	was, name, err := comparable(before)
	if err != nil {
		return d, err
	}
	is, newName, err := comparable(after)
	if err != nil {
		return d, err
	}
	if name == "" {
		name = newName
	}
	mask(was, is)
	var left, right any
	if was != nil {
		left = was
	}
	if is != nil {
		right = is
	}
	return Diff{name, testfile.Diff(left, right)}, nil
}

// comparable returns an object without noise, and its reference.
func comparable(text []byte) (tree map[string]any, ref string, err error) {
	if text == nil {
		return nil, "", nil
	}
	h, err := testfile.HeadOf(text)
	if err != nil || isParent(&h) {
		return nil, "", err
	}
	value, err := testfile.Tree(text)
	if err != nil {
		return nil, "", err
	}
	tree, _ = value.(map[string]any)
	metadata, _ := tree["metadata"].(map[string]any)
	for _, field := range noise {
		delete(metadata, field)
	}
	return tree, h.Ref(), nil
}

func isParent(h *testfile.Head) bool {
	return h.Kind == "ConfigMap" && strings.HasPrefix(h.Metadata.Name, "shell-operator-") &&
		h.Metadata.Labels["applyset.kubernetes.io/id"] != ""
}

// mask replaces the values of Secrets; different values stay different.
func mask(was, is map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		old, _ := was[field].(map[string]any)
		current, _ := is[field].(map[string]any)
		if was["kind"] != "Secret" && is["kind"] != "Secret" {
			return
		}
		for key, value := range current {
			before, has := old[key]
			current[key] = "masked"
			if has && before != value {
				current[key] = "masked, changed"
			}
		}
		for key := range old {
			old[key] = "masked"
		}
	}
	for _, tree := range []map[string]any{was, is} { // kubectl apply keeps the whole object there
		metadata, _ := tree["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations[lastApplied] != nil {
			annotations[lastApplied] = "masked"
		}
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// sortDiffs puts differences into a stable order: operations on different objects are sent concurrently.
func sortDiffs(all []Diff) {
	slices.SortStableFunc(all, func(a, b Diff) int { return strings.Compare(a.Object, b.Object) })
}
