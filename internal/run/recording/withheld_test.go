package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

func in64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func quote(text string) string { b, _ := json.Marshal(text); return string(b) }

// without fails the test if a recording has a value, or anything that may have one.
func without(t interface{ Errorf(string, ...any) }, text string, rec Recording, value string) {
	rest := rec.Result
	rest.Operations, rest.Admission, rest.HTTP, rest.Exit = nil, nil, nil, ""
	if strings.Contains(text, value) || strings.Contains(text, in64(value)) || rec.Contexts != nil || !reflect.DeepEqual(rest, Result{}) ||
		rec.WithoutValues == "" {
		t.Errorf("%q may be in the recording:\n%s", value, text)
	}
	for _, o := range rec.Result.Operations {
		for key := range o.(map[string]any) {
			if !slices.Contains([]string{"operation", "apiVersion", "kind", "namespace", "name", "subresource"}, key) {
				t.Errorf("an operation has %s: %s", key, text)
			}
		}
	}
}

// recordedHook has a binding to Secrets and others.
var recordedHook = &hook.Hook{
	Name:     "a.sh",
	Settings: hook.Settings{Record: hook.RecordAll},
	Kubernetes: []hook.Kubernetes{{Kind: "secrets", Binding: hook.Binding{Name: "secrets"}},
		{Kind: "Pod", Binding: hook.Binding{Name: "pods"}}},
}

// recorded returns the recording of a run.
func (k *kept) recorded(t interface{ Fatal(...any) }, contexts string, run Run) (string, Recording) {
	path := filepath.Join(k.opts.Dir, "contexts")
	if err := os.WriteFile(path, []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	run.Hook, run.Contexts, run.ID = recordedHook, path, fmt.Sprintf("%d-1", time.Now().UnixNano())
	k.keepRun(run)
	text, err := k.Read(run.ID)
	if err != nil || text == nil {
		t.Fatal("no recording", err, k.log.String())
	}
	rec, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), rec
}

func tree(t testing.TB, text string) (v any) {
	t.Helper()
	if err := unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func trees(t testing.TB, texts ...string) (all []any) {
	for _, text := range texts {
		all = append(all, tree(t, text))
	}
	return all
}

func object(value string) string {
	return `{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "db", "namespace": "shop", ` +
		`"labels": {"app": "shop"}}, "data": {"password": ` + quote(in64(value)) + `}}`
}

// contextsOf are binding contexts with a value of a Secret, each in another way.
func contextsOf(value string) map[string]string {
	return map[string]string{
		"object": `[{"binding": "secrets", "type": "Event", "watchEvent": "Added", "object": ` + object(value) + `}]`,
		"filter result": `[{"binding": "secrets", "type": "Event", "filterResult": {"name": "db", "a": {"deep": [` +
			quote(value) + `]}}}]`,
		"a field that is new": `[{"binding": "secrets", "type": "Event", "copy": {"a": ` + quote(value) + `}}]`,
		"Synchronization":     `[{"binding": "secrets", "type": "Synchronization", "objects": [{"filterResult": ` + quote(value) + `}]}]`,
		"before": `[{"binding": "secrets", "type": "Event", "watchEvent": "Modified", "object": ` + object("another") +
			`, "previousObject": ` + object(value) + `}]`,
		"snapshot": `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "Pod"}, ` +
			`"snapshots": {"pods": [], "secrets": [{"filterResult": {"a": ` + quote(value) + `}}]}}]`,
		"snapshot of a group": `[{"binding": "g", "type": "Group", "groupName": "g", ` +
			`"snapshots": {"pods": [{"filterResult": {"a": 1}}], "secrets": [{"object": ` + object(value) + `}]}}]`,
		"a Secret in another object": `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "List", "items": [` +
			object(value) + `]}}]`,
		"review without kind": `[{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", ` +
			`"kind": {"kind": "Secret"}, "object": {"data": {"a": ` + quote(in64(value)) + `}}}}}]`,
		"list of Secrets": `[{"binding": "check", "type": "Validating", ` +
			`"review": {"request": {"object": {"kind": "SecretList", "items": [{"data": {"a": ` + quote(in64(value)) + `}}]}}}}]`,
		"the second of two": `[{"binding": "pods", "type": "Event", "object": {"kind": "Pod"}},{"binding": "secrets", ` +
			`"type": "Event", "object": ` + object(value) + `}]`,
		"HTTP": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "headers": {"X-Key": ["a", ` + quote(value) + `]}, "body": ` +
			quote(value) + `}}]`,
		"a Secret beside unusual escaping": `[{"binding": "pods", "type": "Event", "object": {"k\u0069nd": "S\u0065cret", "data": {"a": ` +
			quote(in64(value)) + `}}}]`,
	}
}

// operationsOf are operations with a value of a Secret, each in another way. The contexts have none.
func operationsOf(value string) map[string]string {
	set := `{"operation": "Sync", "set": "s", "owner": {"apiVersion": "v1", "kind": %q, "namespace": "n", "name": "o"}, "objects": [%s]}`
	manifest := `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "labels": {"a": ` + quote(value) + `}}, "data": {"a": ` +
		quote(in64(value)) + `}}`
	return map[string]string{
		"data":    `{"operation": "Create", "object": ` + manifest + `}`,
		"as text": `{"operation": "Create", "object": ` + quote(manifest) + `}`,
		"JSON patch": `{"operation": "JSONPatch", "kind": "secrets", "name": "new", "jsonPatch": [{"op": "add", ` +
			`"path": "/stringData/a", "value": ` + quote(value) + `}]}`,
		"jq": `{"operation": "JQPatch", "kind": "Secret", "name": "new", "jqFilter": ` + quote(".stringData.a = "+quote(value)) + `}`,
		"event": `{"operation": "Event", "regarding": {"apiVersion": "v1", "kind": "Secret", "name": "new"}, "type": "Normal", ` +
			`"reason": "R", "action": "A", "note": ` + quote(value) + `}`,
		"member": fmt.Sprintf(set, "Pod", manifest),
		"owner":  fmt.Sprintf(set, "Secret", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}`),
		"replaced set": fmt.Sprintf(set, "Pod", manifest) + "\n" +
			fmt.Sprintf(set, "Pod", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}`),
		"another key": `{"operation": "Delete", "kind": "Pod", "name": "p", "object": ` + manifest + `}`,
		"list": `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "List", "metadata": {"name": "l"}, "items": [` +
			manifest + `]}}`,
		"YAML": "operation: Create\nobject:\n  apiVersion: v1\n  kind: &k Secret\n  metadata: {name: new}\n  stringData: {a: " +
			quote(value) + "}\n",
	}
}

// leaking is a run whose hook writes a value wherever a text can be.
func leaking(value string, hookFailed bool) Run {
	run := Run{Attempt: 1, HookFailed: hookFailed, Exit: "exit status 1", Error: "a.sh FAILED: " + value}
	run.Output = value + "\n" + in64(value)
	run.File = effect.Result{Message: value, GiveUp: value}
	run.Outputs.Result = []byte("{}")
	run.Outputs.Metrics = []byte(`{"name": "m", "set": 1, "group": ` + quote(value) + `, "labels": {"l": ` + quote(value) + `}}`)
	run.Outputs.Admission = []byte(`{"allowed": false, "message": ` + quote(value) + `, "warnings": [` + quote(value) + `]}`)
	run.Outputs.Conversion = []byte(`{"failedMessage": ` + quote(value) + `}`)
	run.Outputs.HTTP = []byte(`{"status": 201, "headers": {"X": ` + quote(strings.ReplaceAll(value, "\n", " ")) + `}, "body": ` +
		quote(value) + `}`)
	return run
}

const secretValue = "hunter22-#@<&\"Q7"

// A run that may have a Secret, whichever way it has come into the run, is recorded without values.
func TestWithoutValues(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	for way, contexts := range contextsOf(secretValue) {
		for _, hookFailed := range []bool{false, true} {
			text, rec := k.recorded(t, contexts, leaking(secretValue, hookFailed))
			if without(t, text, rec, secretValue); rec.WithoutValues != secretContexts && !strings.HasPrefix(way, "HTTP") ||
				rec.WithoutValues != answersRequest && strings.HasPrefix(way, "HTTP") {
				t.Errorf("%s: the reason is %q", way, rec.WithoutValues)
			}
		}
	}
	pods := `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "Pod"}}]`
	for way, operations := range operationsOf(secretValue) {
		// Sent or rejected, never sent because the hook failed, and never sent because the file is not valid.
		for fate, after := range map[string]string{"sent": "", "unsent": "", "one is invalid": "\n---\n{\"operation\": \"Delete\"}",
			"unreadable": "\n\x00}{"} {
			run := leaking(secretValue, fate == "unsent")
			run.Outputs.Patch = []byte(operations + after)
			text, rec := k.recorded(t, pods, run)
			if without(t, text, rec, secretValue); rec.WithoutValues != secretOperations {
				t.Errorf("%s, %s: the reason is %q", way, fate, rec.WithoutValues)
			}
		}
	}
	token := strings.Repeat("0a", 32)
	for reason, run := range map[string]Run{secretCalls: {SecretCalls: true}, unreadFile: {Unread: true}, tokenContexts: {},
		secretOperations: {Outputs: workspace.Outputs{Admission: []byte(`{"allowed": true, "patch": "` +
			in64(`[{"op": "add", "path": "/a", "value": {"kind": "Secret", "data": "`+token+`"}}]`) + `"}`)}}} {
		contexts := pods
		if reason == tokenContexts {
			contexts = `[{"binding":"crds","type":"Event","object":{"clientConfig":{"url":"https://h/things.example.com/` + token + `"}}}]`
		}
		run.Error, run.Output = "at "+token, token
		text, rec := k.recorded(t, contexts, run)
		if without(t, text, rec, token); rec.WithoutValues != reason {
			t.Errorf("the reason is %q, want %q", rec.WithoutValues, reason)
		}
	}
}

// What is kept of such a run: addresses, types, statuses and times.
func TestAddressesAreKept(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	run := leaking(secretValue, false)
	run.Attempt, run.Events = 2, []string{"Added shop/db (secrets)"}
	run.Outputs.Patch = []byte(`{"operation": "CreateOrUpdate", "object": ` + object("x") + `}
{"operation": "MergePatch", "kind": "Pod", "namespace": "shop", "name": "web", "subresource": "status", "mergePatch": {"a": "blue"}}`)
	text, rec := k.recorded(t, contextsOf(secretValue)["object"], run)
	want := Recording{Version: 1, Hook: "a.sh", Run: rec.Run, Attempt: 2, Ended: rec.Ended, WithoutValues: secretContexts, Events: run.Events,
		Result: Result{Exit: "exit status 1", Outcome: Outcome{Operations: trees(t,
			`{"operation": "CreateOrUpdate", "apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "db"}`,
			`{"operation": "MergePatch", "kind": "Pod", "namespace": "shop", "name": "web", "subresource": "status"}`),
			Admission: tree(t, `{"allowed": false}`), HTTP: tree(t, `{"status": 201}`)}}}
	if rec.Ended.IsZero() || !reflect.DeepEqual(rec, want) {
		t.Errorf("the recording is %s", text)
	}
	if !Is([]byte(text)) {
		t.Error("it is no recording")
	}
	if _, _, err := Open([]byte(text)); err == nil || err.Error() != "the recording of run "+rec.Run+
		" has no binding contexts, so it cannot be replayed: its binding contexts have a Secret" {
		t.Errorf("a replay: %v", err)
	}
}

// An operation in a file that cannot be read may be on a Secret in whichever way its letters are written.
func TestUnreadableOperationsAreSecret(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	for patch, want := range map[string]bool{
		`{"kind": "S\u0065cret"`: true, "kind: \"Se\\x63ret\"\n{": true, "kind: \"Sec\\\n  ret\"\n{": true, "kind: !!binary U2VjcmV0\n{": true,
		"{kind: SECRET":                         true,
		`{"operation": "Delete", "kind": "Pod"`: false, `{"operation": "Delete", "kind": "Pod"}`: false, "": false,
	} {
		run := Run{HookFailed: true, Exit: "exit status 1", Output: "hunter22"}
		run.Outputs.Patch = []byte(patch)
		if _, rec := k.recorded(t, `[{"binding": "pods"}]`, run); (rec.WithoutValues != "") != want || (len(rec.Result.Output) == 0) != want {
			t.Errorf("%s: without values: %q, the output %q", patch, rec.WithoutValues, rec.Result.Output)
		}
	}
}

// Runs of random contexts and operations, with values and without.
func TestWithoutValuesRandom(t *testing.T) {
	k := newRecorder(t, Options{})
	defer k.Close()
	harmless := []string{
		`{"binding": "pods", "type": "Event", "watchEvent": "Added", "object": {"apiVersion": "v1", "kind": "Pod", ` +
			`"spec": {"volumes": [{"secret": {"secretName": "s"}}]}}, "filterResult": {"a": [1, null, "Secret"]}}`,
		`{"binding": "onStartup"}`, `{"binding": "tick", "type": "Schedule", "snapshots": {"pods": [{"filterResult": "x"}]}}`,
		`{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", "kind": {"kind": "Pod"}, "object": {"kind": "Pod"}}}}`,
	}
	safe := []string{
		`{"operation": "Delete", "kind": "Pod", "name": "p"}`, `{"operation": "MergePatch", "kind": "secretstores", "name": "p", ` +
			`"mergePatch": {"a": 1}}`,
		`{"operation": "Apply", "object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, ` +
			`"spec": {"secretName": "x"}}}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		value := secretValue
		pick := func(from map[string]string, name string) string {
			return from[rapid.SampledFrom(slices.Sorted(maps.Keys(from))).Draw(t, name)]
		}
		var contexts, operations []string
		secret := false
		for range rapid.IntRange(1, 4).Draw(t, "contexts") {
			if rapid.IntRange(0, 3).Draw(t, "has a value") == 0 {
				one := pick(contextsOf(value), "context")
				contexts, secret = append(contexts, one[1:len(one)-1]), true
			} else {
				contexts = append(contexts, rapid.SampledFrom(harmless).Draw(t, "harmless"))
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "operations") {
			if rapid.IntRange(0, 3).Draw(t, "has a value") == 0 {
				if one := pick(operationsOf(value), "operation"); strings.HasPrefix(one, "{") {
					operations, secret = append(operations, one), true
				}
			} else {
				operations = append(operations, rapid.SampledFrom(safe).Draw(t, "safe"))
			}
		}
		hookFailed := rapid.Bool().Draw(t, "hookFailed")
		run := leaking(value, hookFailed)
		run.Outputs.Patch = []byte(strings.Join(operations, "\n"))
		if rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
			// Half a word of a name such as "secretName" counts then, too.
			operations = slices.DeleteFunc(operations, func(o string) bool { return !secret && strings.Contains(o, "secret") })
			run.Outputs.Patch = []byte(strings.Join(append(operations, `{"operation": "Dele`), "\n"))
		}
		text, rec := k.recorded(t, "["+strings.Join(contexts, ",")+"]", run)
		if secret {
			without(t, text, rec, value)
		} else if rec.WithoutValues != "" || rec.Result.Output == nil || rec.Result.Error == "" || rec.Contexts == nil {
			t.Fatalf("nothing is secret: %s", text)
		}
	})
}
