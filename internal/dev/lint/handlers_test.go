package lint

import (
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
