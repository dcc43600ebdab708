package lint

import (
	"fmt"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// TestHandlers finds functions that the libraries never call.
func TestHandlers(t *testing.T) {
	h := &hook.Hook{
		Name:       "a",
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "pods"}}, {Binding: hook.Binding{Name: "all nodes", Group: "g"}}},
		Schedules:  []hook.Schedule{{Binding: hook.Binding{Name: "hourly"}}},
		Conversions: []hook.Conversion{
			{Binding: hook.Binding{Name: "up"}},
		},
	}
	const bash, python = "#!/bin/bash\n", "#!/usr/bin/env python3\nfrom shell_operator_hook import Hook\n"
	for _, row := range []struct{ text, want string }{
		{bash + "__on_kubernetes::pods::added() { :; }\n__on_kubernetes::pods() { :; }\n__on_kubernetes::all_nodes::requeue() { :; }\n" +
			"__on_group::g() { :; }\n__on_schedule::hourly() { :; }\n__on_conversion::up::a.b.v1::v2() { :; }\nhook::run \"$@\"\n", ""},
		{bash + "__on_kubernetes::pod() { :; }\nhook::run\n", `a:2:1: warning: no binding is named "pod": the handler is never called ` +
			`(its bindings under kubernetes: pods, all nodes)`},
		{bash + "__on_kubernetes::pods::create() { :; }\nhook::run\n", `a:2:1: warning: no event is called "create": ` +
			`the handler is never called (the events are synchronization, added, modified, added_or_modified, deleted, deleting, requeue)`},
		{bash + "__on_group::h() { :; }\nhook::run\n",
			`a:2:1: warning: no binding is named "h": the handler is never called (no binding of the hook has this group)`},
		{bash + "__on_http::x() { :; }\nhook::run\n", `a:2:1: warning: no binding is named "x": the handler is never called ` +
			`(the hook has no such binding under http: remove the handler, or add the binding)`},
		{bash + "__on_kubernetes::pod() { :; }\n", ""}, // no library calls it
		{python + "@hook.on_kubernetes(\"pods\", \"Added\")\n@hook.on_schedule('hourly')\n@hook.on_group(\"g\")\n@hook.on_schedule(NAME)\n", ""},
		{python + "@hook.on_schedule('daily')\n",
			`a:3:6: warning: no binding is named "daily": the handler is never called (its bindings under schedule: hourly)`},
		{"#!/usr/bin/env python3\n@hook.on_schedule('daily')\n", ""},
	} {
		if got := lines(handlers(script.Source{Path: "a", Text: []byte(row.text)}, h)); got != row.want {
			t.Errorf("%s\ngot  %s\nwant %s", row.text, got, row.want)
		}
	}
}

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
