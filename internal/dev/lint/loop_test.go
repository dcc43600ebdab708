package lint

import (
	"fmt"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// TestWakesItself finds patches of what a binding watches that depend on nothing.
func TestWakesItself(t *testing.T) {
	const config = "#!/bin/sh\nif [ \"$1\" = --config ]; then\n  echo '…'\n  exit\nfi\n# if it is called\n"
	const want = `a:%d: warning: the hook is run again by its own patch: binding "pods" delivers each change of a Pod ` +
		`(set ownChanges: ignore in the binding, or a jqFilter of what the hook reads)`
	watched := hook.Kubernetes{Binding: hook.Binding{Name: "pods"}, Kind: "Pod", Modified: true}
	for _, row := range []struct {
		text   string
		change func(*hook.Kubernetes)
		line   int
	}{
		{"echo '{operation: MergePatch, apiVersion: v1, kind: Pod, name: a}' >\"$KUBERNETES_PATCH_PATH\"\n", nil, 7},
		{"\njq -c '{operation: \"JQPatch\",\n kind: \"Pod\", name: .name}' >\"$KUBERNETES_PATCH_PATH\"\n", nil, 8},
		{"kubernetes::patch -n \"$namespace\" pods \"$name\" <<<\"$patch\"\n", nil, 7},
		{"merge_patch(\"Pod\", name, {})\n", nil, 7},
		{"kubernetes::patch pod web\n", func(k *hook.Kubernetes) { k.Names = []string{"web"} }, 7},
		{"kubernetes::patch pod web\n", func(k *hook.Kubernetes) { k.Names = []string{"api"} }, 0},
		{"kubernetes::patch pod web\n", func(k *hook.Kubernetes) { k.IgnoreOwn = true }, 0},
		{"kubernetes::patch pod web\n", func(k *hook.Kubernetes) { k.JQFilter = ".spec" }, 0},
		{"kubernetes::patch pod web\n", func(k *hook.Kubernetes) { k.Modified = false }, 0},
		{"kubernetes::patch deployment web\n", nil, 0},
		{"[ \"$phase\" = Failed ] && kubernetes::patch pod web\n", nil, 0},
		{"jq '.[] | select(.x) | {operation: \"MergePatch\", kind: \"Pod\"}'\n", nil, 0},
		{"echo '{operation: CreateOrUpdate, object: {kind: Pod}}' '{operation: MergePatch, kind: Node}'\n", nil, 0},
	} {
		k, expected := watched, ""
		if row.change != nil {
			row.change(&k)
		}
		if row.line > 0 {
			expected = fmt.Sprintf(want, row.line)
		}
		h := &hook.Hook{Name: "a", Kubernetes: []hook.Kubernetes{k}}
		if got := lines(wakesItself(script.Source{Path: "a", Text: []byte(config + row.text)}, h)); got != expected {
			t.Errorf("%s\ngot  %s\nwant %s", row.text, got, expected)
		}
	}
}
