package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
)

func in64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func quote(text string) string { b, _ := json.Marshal(text); return string(b) }

// wrap cuts a text into lines, as base64 does.
func wrap(text string, width int) (lines []string) {
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return append(lines, text)
}

var encodedRuns = regexp.MustCompile(`[A-Za-z0-9+/_-]{6,}`)

// has reports whether a text has a value, plain or in layers of base64.
func has(text, value string, layers int) bool {
	if strings.Contains(text, value) {
		return true
	}
	if layers == 0 {
		return false
	}
	for _, run := range encodedRuns.FindAllString(text, -1) {
		run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
		for offset := range 4 {
			chars := run[offset:]
			decoded, _ := base64.RawStdEncoding.DecodeString(chars[:len(chars)-len(chars)%4])
			rest, _ := base64.RawStdEncoding.DecodeString(chars[len(chars)-len(chars)%4:])
			if has(string(decoded)+string(rest), value, layers-1) {
				return true
			}
		}
	}
	return false
}

// without fails the test if a form of a value is in a text.
func without(t interface{ Errorf(string, ...any) }, text, value string) {
	forms := append(strings.Split(value, "\n"), value, quote(value)[1:len(quote(value))-1], in64(value))
	for _, form := range append(forms, wrap(in64(value), 76)...) {
		if len(form) >= 4 && has(text, form, 2) {
			t.Errorf("%q is in the recording:\n%s", form, text)
			return
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
	k.Keep(run)
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

const secretObject = `{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "db", "namespace": "shop", ` +
	`"labels": {"app": "shop"}%s}, "data": {"password": %q}}`

func object(value string) string { return fmt.Sprintf(secretObject, "", in64(value)) }

// contextsOf are binding contexts with a value of a Secret, each in another way.
func contextsOf(value string) map[string]string {
	last := fmt.Sprintf(secretObject, `, "annotations": {"`+lastApplied+`": `+quote(`{"stringData":{"older":`+quote(value)+`}}`)+`}`,
		in64("another"))
	return map[string]string{
		"object": `[{"binding": "secrets", "type": "Event", "watchEvent": "Added", "object": ` + object(value) + `}]`,
		"stringData": `[{"binding": "secrets", "type": "Event", "object": {"apiVersion": "v1", "kind": "Secret", ` +
			`"stringData": {"a": ` + quote(value) + `}}}]`,
		"last applied": `[{"binding": "secrets", "type": "Event", "object": ` + last + `}]`,
		"filter result": `[{"binding": "secrets", "type": "Event", "filterResult": {"name": "db", "a": {"deep": [` +
			quote(value) + `]}}}]`,
		"filter result that is a text": `[{"binding": "secrets", "type": "Event", "filterResult": ` + quote(value) + `}]`,
		"filter result with a name": `[{"binding": "secrets", "type": "Event", "filterResult": {"name": ` + quote("N "+value) +
			`, "metadata": {"namespace": ` + quote("N "+value) + `}}}]`,
		"previous filter result": `[{"binding": "secrets", "type": "Event", "filterResult": {"a": 1}, "previousFilterResult": {"a": ` +
			quote(value) + `}}]`,
		"previous object": `[{"binding": "secrets", "type": "Event", "previousObject": {"data": {"a": ` +
			quote(in64(value)) + `}}}]`,
		"a field that is new":    `[{"binding": "secrets", "type": "Event", "copy": {"a": ` + quote(value) + `}}]`,
		"a new field of an item": `[{"binding": "secrets", "type": "Synchronization", "objects": [{"copy": [` + quote(value) + `]}]}]`,
		"an item that is a text": `[{"binding": "secrets", "type": "Synchronization", "objects": [` + quote(value) + `]}]`,
		"Synchronization": `[{"binding": "secrets", "type": "Synchronization", "objects": [{"object": ` + object(value) +
			`, "filterResult": ` + quote(value) + `}]}]`,
		"deleting": `[{"binding": "secrets", "type": "Synchronization", "objects": [], "deleting": [{"object": ` +
			object(value) + `, "filterResult": ` + quote(value) + `}]}]`,
		"before": `[{"binding": "secrets", "type": "Event", "watchEvent": "Modified", "object": ` + object("another") +
			`, "previousObject": ` + object(value) + `}]`,
		"snapshot": `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "Pod"}, ` +
			`"snapshots": {"pods": [], "secrets": [{"filterResult": {"a": ` + quote(value) + `}}]}}]`,
		"snapshot of a group": `[{"binding": "g", "type": "Group", "groupName": "g", ` +
			`"snapshots": {"pods": [{"filterResult": {"a": 1}}], "secrets": [{"object": ` + object(value) + `}]}}]`,
		"a Secret in another object": `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "List", "items": [` +
			object(value) + `]}}]`,
		"review": `[{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", ` +
			`"kind": {"kind": "Secret"}, "object": ` + object(value) + `, "oldObject": {"kind": "Secret", "stringData": {"a": ` +
			quote("old "+value) + `}}}}}]`,
		"review without kind": `[{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", ` +
			`"kind": {"kind": "Secret"}, "object": {"data": {"a": ` + quote(in64(value)) + `}}}}}]`,
		"malformed data": `[{"binding": "secrets", "type": "Event", "object": {"kind": "Secret", "data": [` +
			quote(value) + `]}}]`,
		"object without kind": `[{"binding": "secrets", "type": "Event", "object": {"data": {"a": ` + quote(in64(value)) + `}}}]`,
		"data that is a number": `[{"binding": "secrets", "type": "Event", "filterResult": {"n": 1` +
			strings.Repeat("0", len(value)%7) + `}, "object": {"data": {"a": ` + quote(value) + `}}}]`,
		"list of Secrets": `[{"binding": "check", "type": "Validating", ` +
			`"review": {"request": {"object": {"kind": "SecretList", "items": [{"data": {"a": ` + quote(in64(value)) + `}}]}}}}]`,
		"the second of two": `[{"binding": "pods", "type": "Event", "object": {"kind": "Pod"}},{"binding": "secrets", ` +
			`"type": "Event", "object": ` + object(value) + `}]`,
		"HTTP header": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "method": "POST", "path": "/things", ` +
			`"headers": {"X-Key": ["a", ` + quote(value) + `]}}}]`,
		"HTTP query": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "query": {"token": [` +
			quote(value) + `]}}}]`,
		"HTTP body": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "body": ` + quote(value) + `}}]`,
		"HTTP body of JSON": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "body": ` +
			quote(`{"a":`+quote(value)+`}`) + `, "json": {"a": ` + quote(value) + `}}}]`,
		"HTTP body of bytes": `[{"binding": "web", "type": "HTTP", "request": {"id": "1", "bodyBase64": ` +
			quote(in64(value)) + `}}]`,
		"HTTP without anything to redact": `[{"binding": "web", "type": "HTTP", "request": {"id": "1"}}]`,
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
		"data": `{"operation": "Create", "object": ` + manifest + `}`,
		"stringData": `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new"}, ` +
			`"stringData": {"a": ` + quote(value) + `}}}`,
		"as text":     `{"operation": "Create", "object": ` + quote(manifest) + `}`,
		"merge patch": `{"operation": "MergePatch", "kind": "secret", "name": "new", "mergePatch": {"stringData": {"a": ` + quote(value) + `}}}`,
		"JSON patch": `{"operation": "JSONPatch", "kind": "secrets", "name": "new", "jsonPatch": [{"op": "add", ` +
			`"path": "/stringData/a", "value": ` + quote(value) + `}]}`,
		"jq": `{"operation": "JQPatch", "kind": "Secret", "name": "new", "jqFilter": ` + quote(".stringData.a = "+quote(value)) + `}`,
		"condition": `{"operation": "Condition", "kind": "Secret", "name": "new", "type": "Ready", "status": "False", ` +
			`"reason": "No", "message": ` + quote(value) + `}`,
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
	lines := append([]string{value, "x" + value + "y", in64(value), in64(in64(value)), quote(value), quote(quote(value))},
		wrap(in64("user:"+value+strings.Repeat("!", 90)), 76)...)
	run.Output = strings.Join(append(lines, strings.Split(value, "\n")...), "\n")
	run.File = effect.Result{Message: value, GiveUp: value}
	run.Outputs.Result = []byte("{}")
	run.Outputs.Metrics = []byte(`{"name": "m", "set": 1, "group": ` + quote(value) + `, "labels": {"l": ` + quote(value) + `}}`)
	run.Outputs.Admission = []byte(`{"allowed": false, "message": ` + quote(value) + `, "warnings": [` + quote(value) + `]}`)
	run.Outputs.Conversion = []byte(`{"failedMessage": ` + quote(value) + `}`)
	run.Outputs.HTTP = []byte(`{"status": 201, "headers": {"X": ` + quote(strings.ReplaceAll(value, "\n", " ")) + `}, "body": ` +
		quote(value) + `}`)
	return run
}

var secretValues = map[string]string{
	"word": "hunter22", "with what is special in JSON and HTML": `p@ss"<word>&\1`, "letters beyond ASCII": "grün-geheim-ß😀",
	"number": "12345678",
	"lines":  "line one\nsecond \"line\"\nthird", "long": strings.Repeat("0a1B2c3D4e", 30), "short": "k9#z",
	"key": "-----BEGIN KEY-----\n" + strings.Join(wrap(strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 8), 64), "\n") +
		"\n-----END KEY-----\n",
}

// Line 6, without an operator: a value of a Secret is nowhere in a recording, whichever way it has come into the run.
func TestRedact(t *testing.T) {
	k := newRecorder(t, Options{MaxAge: time.Hour})
	defer k.Close()
	for name, value := range secretValues {
		for way, contexts := range contextsOf(value) {
			for _, hookFailed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/context/%s/%t", name, way, hookFailed), func(t *testing.T) {
					text, rec := k.recorded(t, contexts, leaking(value, hookFailed))
					if without(t, text, value); !rec.WithoutTexts {
						t.Errorf("the recording has texts: %s", text)
					}
				})
			}
		}
		for way, operations := range operationsOf(value) {
			// Sent or rejected, never sent because the hook failed, and never sent because the file is not valid.
			for fate, after := range map[string]string{"sent": "", "unsent": "", "one is invalid": "\n---\n{\"operation\": \"Delete\"}",
				"unreadable": "\n\x00}{"} {
				t.Run(fmt.Sprintf("%s/operation/%s/%s", name, way, fate), func(t *testing.T) {
					run := leaking(value, fate == "unsent")
					run.Outputs.Patch = []byte(operations + after)
					text, rec := k.recorded(t, `[{"binding": "pods", "type": "Event", "object": {"apiVersion": "v1", "kind": "Pod"}}]`, run)
					if without(t, text, value); !rec.WithoutTexts {
						t.Errorf("the recording has texts: %s", text)
					}
				})
			}
		}
	}
}

// An operation in a file that cannot be read may be on a Secret in whichever way its letters are written, or in a file that is not there.
func TestUnreadableOperationsAreSecret(t *testing.T) {
	k := newRecorder(t, Options{MaxAge: time.Hour})
	defer k.Close()
	for patch, want := range map[string]bool{
		`{"kind": "S\u0065cret"`: true, "kind: \"Se\\x63ret\"\n{": true, "kind: \"Sec\\\n  ret\"\n{": true, "kind: !!binary U2VjcmV0\n{": true,
		"{kind: SECRET":                         true,
		`{"operation": "Delete", "kind": "Pod"`: false, `{"operation": "Delete", "kind": "Pod"}`: false, "": false,
	} {
		run := Run{HookFailed: true, Exit: "exit status 1", Output: "hunter22"}
		run.Outputs.Patch = []byte(patch)
		if _, rec := k.recorded(t, `[{"binding": "pods"}]`, run); rec.WithoutTexts != want || (len(rec.Result.Output) == 0) != want {
			t.Errorf("%s: without texts is %t, the output %q", patch, rec.WithoutTexts, rec.Result.Output)
		}
	}
	if _, rec := k.recorded(t, `[{"binding": "pods"}]`, Run{Unread: true, Output: "hunter22"}); !rec.WithoutTexts {
		t.Error("texts are kept although a file of the hook could not be read")
	}
}

// Runs of random contexts and operations, with values and without.
func TestRedactRandom(t *testing.T) {
	k := newRecorder(t, Options{MaxAge: time.Hour})
	defer k.Close()
	harmless := []string{
		`{"binding": "pods", "type": "Event", "watchEvent": "Added", "object": {"apiVersion": "v1", "kind": "Pod", ` +
			`"spec": {"volumes": [{"secret": {"secretName": "s"}}]}}, "filterResult": {"a": [1, null, "Secret"]}}`,
		`{"binding": "secrets", "type": "Synchronization", "objects": []}`, `{"binding": "onStartup"}`, `{"binding": "tick", ` +
			`"type": "Schedule", "snapshots": {"secrets": [], "pods": [{"filterResult": "x"}]}}`,
		`{"binding": "check", "type": "Validating", "review": {"request": {"uid": "1", "kind": {"kind": "Pod"}, "object": {"kind": "Pod"}}}}`,
	}
	safe := []string{
		`{"operation": "Delete", "kind": "Pod", "name": "p"}`, `{"operation": "MergePatch", "kind": "secretstores", "name": "p", ` +
			`"mergePatch": {"a": 1}}`,
		`{"operation": "Apply", "object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, ` +
			`"spec": {"secretName": "x"}}}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[A-Za-z0-9#@"<&\\\n =+/-]{3,80}[#@]{3}Q7`).Draw(t, "value")
		if i := strings.IndexByte(value, '\n'); i >= 0 { // each line is looked for
			value = strings.ReplaceAll(value, "\n", "\nQ#7@x")
		}
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
			without(t, text, value)
		}
		if rec.WithoutTexts != secret || secret == (rec.Result.Output != nil) || secret == (rec.Result.Error != "") {
			t.Fatalf("secret: %t, without texts: %t: %s", secret, rec.WithoutTexts, text)
		}
	})
}

// What is no secret stays, and so does the identity of objects. A hook that decodes data still works.
func TestRedactKeeps(t *testing.T) {
	k := newRecorder(t, Options{MaxAge: time.Hour})
	defer k.Close()
	contexts := `[{"binding":"secrets","type":"Event","watchEvent":"Added","object":` + object("shop") +
		`,"filterResult":{"name":"db","namespace":"shop-1","kind":"Secret","version":7,"set":true,"none":null,"empty":""}},` +
		`{"binding":"pods","type":"Event","watchEvent":"Modified","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop",` +
		`"namespace":"shop"},"spec":{"shop":{"n":12}}}}]`
	run := Run{Exit: "exit status 1"}
	run.Outputs.Patch = []byte(`{"operation":"MergePatch","kind":"Pod","namespace":"shop","name":"shop","mergePatch":{"a":"blue"}}
{"operation":"JSONPatch","kind":"Secret","namespace":"shop","name":"db","ignoreMissingObject":true,"jsonPatch":[{"op":"add","path":"/data/a","value":"c2hvcA=="}]}
{"operation":"Event","regarding":{"apiVersion":"v1","kind":"Pod","name":"p"},"type":"Normal","reason":"R","action":"A","note":"n"}`)
	run.Outputs.Metrics = []byte(`{"name":"m","set":7,"labels":{"a":"b"}}`)
	text, rec := k.recorded(t, contexts, run)
	var got []struct {
		Object struct {
			Data map[string]string
		}
		FilterResult map[string]any
	}
	if err := json.Unmarshal(rec.Contexts, &got); err != nil {
		t.Fatal(err)
	}
	decoded, err := base64.StdEncoding.DecodeString(got[0].Object.Data["password"])
	with := string(decoded)
	if err != nil || !redacted.MatchString(with) {
		t.Errorf("the value became %q (%v)", with, err)
	}
	filtered := got[0].FilterResult
	if filtered["name"] != "db" || filtered["namespace"] != "shop-1" || filtered["kind"] != "Secret" ||
		!redacted.MatchString(fmt.Sprint(filtered["version"], filtered["set"])) || filtered["none"] != nil || filtered["empty"] != "" {
		t.Errorf("the filter result became %v", filtered)
	}
	for _, kept := range []string{
		`{"binding":"secrets","type":"Event","watchEvent":"Added"`, `"spec":{"shop":{"n":12}}`, `"mergePatch":{"a":"blue"},"name":"shop",` +
			`"namespace":"shop","operation":"MergePatch"`,
		`"op":"add","path":"/data/a","value":"` + in64(with) + `"`, `"ignoreMissingObject":true`,
		`"regarding":{"apiVersion":"v1","kind":"Pod","name":"p"},"type":"Normal"}`, `{"action":"set","name":"m","value":7}`,
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is gone:\n%s", kept, text)
		}
	}
	again, _ := k.recorded(t, contexts, run)
	k.redactor = newRedactor()
	if other, _ := k.recorded(t, contexts, run); !strings.Contains(again, in64(with)) || strings.Contains(other, in64(with)) {
		t.Error("replacements are not those of a process")
	}
	// A replay with the same hook has no difference, though it has texts.
	now := Result{Exit: "exit status 1", Outcome: Outcome{
		Operations: trees(t, `{"operation":"MergePatch","kind":"Pod","namespace":"shop","name":"shop","mergePatch":{"a":"blue"}}`,
			`{"operation":"JSONPatch","kind":"Secret","namespace":"shop","name":"db","ignoreMissingObject":true,"jsonPatch":[{"op":"add",`+
				`"path":"/data/a","value":"another"}]}`,
			`{"operation":"Event","regarding":{"apiVersion":"v1","kind":"Pod","name":"p"},"type":"Normal","reason":"R","action":"A",`+
				`"note":"another"}`),
		Metrics: trees(t, `{"action":"set","name":"m","value":7,"labels":{"a":"other"}}`),
	}}
	if d := rec.Differences(now); d != nil {
		t.Errorf("the replay differs: %q", d)
	}
}

// Nothing is decoded that has nothing to do with a Secret.
func TestRedactCopies(t *testing.T) {
	const contexts = `[{"binding":"pods","type":"Event","object":{"z":1,"a":1.50,"kind":"Pod"}}]`
	var w strings.Builder
	d := &redaction{redactor: newRedactor()}
	if err := d.copy(&w, []byte(contexts)); err != nil || strings.TrimSpace(w.String()) != contexts || d.confidential {
		t.Errorf("%v: the contexts became %s", err, w.String())
	}
	d.bindings = map[string]bool{"secrets": true}
	for _, broken := range []string{``, `[`, `{}`, `[{"object": {}, "binding": "a"}]`, `[{"binding": "a", "objects": {}}]`,
		`[{"binding": 1}]`} {
		if err := d.copy(io.Discard, []byte(broken)); err == nil {
			t.Errorf("no error for %s", broken)
		}
	}
}

// BenchmarkRedact redacts contexts of 1 MiB, with Secrets and without.
func BenchmarkRedact(b *testing.B) {
	pod := `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"default","labels":{"app":"web"}},` +
		`"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.25","env":[{"name":"A","value":"some value"}]}]}}}`
	pods := strings.Repeat(pod+",", 1<<20/len(pod)) + pod
	secrets := make([]string, 100)
	for i := range secrets {
		secrets[i] = fmt.Sprintf(`{"object":%s}`, object(fmt.Sprintf("value-%d-of-a-secret", i)))
	}
	for name, list := range map[string]string{"without": "", "with": strings.Join(secrets, ",")} {
		contexts := []byte(`[{"binding":"pods","type":"Synchronization","objects":[` + pods + `],"snapshots":{"secrets":[` + list + `]}}]`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(contexts)))
			b.ReportAllocs()
			for b.Loop() {
				d := &redaction{redactor: newRedactor(), bindings: map[string]bool{"secrets": true}}
				if err := d.copy(io.Discard, contexts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
