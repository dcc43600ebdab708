package hookset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Bindings of a keyed queue agree, in one hook and across hooks. Schedules only name it.
func TestKeyedQueuesAgree(t *testing.T) {
	o, _ := options(t, answers{
		"a.sh": prints(`{configVersion: v1, kubernetes: [{name: first, kind: Pod, queue: plain}, {name: orders, kind: Pod, queue: {name: q, `+
			`key: object, concurrency: 8}}]}`, "", nil),
		"b.sh": prints(`{configVersion: v1, kubernetes: [{name: named, kind: Pod, queue: q}, {name: other, kind: Pod, queue: {name: q, `+
			`key: namespace, concurrency: 8}}]}`, "", nil),
		"c.sh": prints(`{configVersion: v1, kubernetes: [{name: fewer, kind: Pod, queue: {name: q, key: object}}]}`, "", nil),
		"d.sh": prints(`{configVersion: v1, kubernetes: [{name: same, kind: Pod, queue: {name: q, key: object, concurrency: 8}}], `+
			`schedule: [{crontab: '@hourly', queue: q}]}`, "", nil),
		"e.sh": prints(`{configVersion: v1, onStartup: no}`, "", nil), // all problems are reported together
	})
	_, err := Load(t.Context(), o)
	const rest = `, but kubernetes[1].queue (binding "orders") of hook "a.sh" with key "object" and concurrency 8: ` +
		"declare the same key and concurrency in all kubernetes bindings of a queue, or use another name"
	want := `cannot load hooks: hook "b.sh": the configuration is not valid, 2 problems:
  * kubernetes[0].queue (binding "named") declares queue "q" with no key` + rest + `
  * kubernetes[1].queue (binding "other") declares queue "q" with key "namespace" and concurrency 8` + rest + `
hook "c.sh": the configuration is not valid:
  * kubernetes[0].queue (binding "fewer") declares queue "q" with key "object" and concurrency 1` + rest + `
hook "e.sh":`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("got\n%v\nwant\n%s", err, want)
	}
	var load *LoadError
	if !errors.As(err, &load) || len(load.Causes()) != 3 {
		t.Errorf("causes of %v", err)
	}
}

// The API server limits an expression, and the conditions of all webhooks of a kind are stored as one object.
func TestConditionsAreStored(t *testing.T) {
	large := func(kind, name string, conditions, bytes int) func(context.Context) (string, string, error) {
		var all []string
		for i := range conditions {
			all = append(all, fmt.Sprintf("{name: c%d, expression: %q}", i%10, "'"+strings.Repeat("x", bytes-8)+"' == ''"))
		}
		return prints(fmt.Sprintf(`{configVersion: v1, %s: [{name: %s.example.com, matchConditions: [%s], rules: [`+
			`{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}]}`, kind, name, strings.Join(all, ", ")), "", nil)
	}
	hooks := answers{"a.sh": large("kubernetesValidating", "a", 10, 100_000), "b.sh": large("kubernetesMutating", "b", 10, 100_000)}
	o, _ := options(t, hooks)
	if _, err := Load(t.Context(), o); err != nil {
		t.Fatalf("hooks with 1 MB of each kind: %.900v", err)
	}
	hooks["c.sh"], hooks["d.sh"] = large("kubernetesValidating", "c", 6, 100_000), large("kubernetesMutating", "d", 1, 100_001)
	o, _ = options(t, hooks)
	_, err := Load(t.Context(), o)
	for _, want := range []string{
		`kubernetesValidating[0].matchConditions (binding "c.example.com") and those before it, in all hooks, have 1600032 bytes`,
		`matchConditions (binding "d.example.com") has an expression of 100001 characters in "c0": use at most 100000`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %.1500v", want, err)
		}
	}
}

// A request runs one hook: webhooks of a kind, and routes, have names of their own.
func TestRequestsRunOneHook(t *testing.T) {
	review := func(kind, name string) func(context.Context) (string, string, error) {
		return prints(fmt.Sprintf(`{configVersion: v1, %s: [{name: %s.example.com, rules: [`+
			`{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}]}`, kind, name), "", nil)
	}
	route := func(method, path string) func(context.Context) (string, string, error) {
		return prints(fmt.Sprintf(`{configVersion: v1, http: [{method: %s, path: %q}]}`, method, path), "", nil)
	}
	o, _ := options(t, answers{
		"a.sh": review("kubernetesValidating", "x"), "b.sh": review("kubernetesMutating", "x"), "c.sh": review("kubernetesValidating", "y"),
		"d.sh": review("kubernetesValidating", "x"), "e.sh": review("kubernetesMutating", "x"),
		"f.sh": route("GET", "/x/{a}"), "g.sh": route("POST", "/x/{a}"), "h.sh": route("GET", "/x/a"), "i.sh": route("GET", "/x/{b}"),
	})
	_, err := Load(t.Context(), o)
	want := `cannot load hooks: hook "d.sh": the configuration is not valid:
  * kubernetesValidating[0].name (binding "x.example.com") is also the name of kubernetesValidating[0] (binding "x.example.com") ` +
		`of hook "a.sh": give each a unique name
hook "e.sh": the configuration is not valid:
  * kubernetesMutating[0].name (binding "x.example.com") is also the name of kubernetesMutating[0] (binding "x.example.com") ` +
		`of hook "b.sh": give each a unique name
hook "i.sh": the configuration is not valid:
  * http[0].path (binding "http") answers the same requests as http[0] (binding "http") of hook "f.sh": ` +
		`one request runs one hook: give one of them another method or path`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// The hooks of a queue are divided equally, if there are shards; main has hooks of all kinds.
func TestQueuesOfShards(t *testing.T) {
	o, _ := options(t, answers{
		"a.sh": prints(`{configVersion: v1, kubernetes: [{kind: Pod}, {name: pods, kind: Pod, queue: q}], `+
			`schedule: [{crontab: '@hourly', queue: s}]}`,
			"", nil),
		"b.sh": prints(`{configVersion: v1, kubernetes: [{kind: Pod}, {name: own, kind: Pod, queue: own}, {name: nodes, kind: Node, queue: q}], `+
			`schedule: [{name: hourly, crontab: '@hourly', queue: s}], settings: {shardBy: object}}`, "", nil),
		"c.sh": prints(`{configVersion: v1, kubernetes: [{name: same, kind: Pod, queue: own}], settings: {shardBy: object}}`, "", nil),
		"d.sh": prints(`{configVersion: v1, kubernetes: [{name: other, kind: Pod, queue: own}], settings: {shardBy: namespace}}`, "", nil),
	})
	if _, err := Load(t.Context(), o); err != nil {
		t.Errorf("without shards: %v", err)
	}
	o.Shards = 3
	_, err := Load(t.Context(), o)
	const other = "use another queue, or the same settings.shardBy in all hooks of a queue"
	const want = `cannot load hooks: hook "b.sh": the configuration is not valid, 2 problems:
  * schedule[0].queue (binding "hourly") is "s" and settings.shardBy is object, ` +
		`but schedule[0].queue (binding "schedule") of hook "a.sh" is the same queue with settings.shardBy not set: ` + other + `
  * kubernetes[2].queue (binding "nodes") is "q" and settings.shardBy is object, ` +
		`but kubernetes[1].queue (binding "pods") of hook "a.sh" is the same queue with settings.shardBy not set: ` + other + `
hook "d.sh": the configuration is not valid:
  * kubernetes[0].queue (binding "other") is "own" and settings.shardBy is namespace, ` +
		`but kubernetes[1].queue (binding "own") of hook "b.sh" is the same queue with settings.shardBy object: ` + other
	if err == nil {
		t.Fatal("loaded")
	}
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
