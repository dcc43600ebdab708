package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// operations is a file with n documents in JSON or YAML, each with a text of some bytes.
func operations(form string, n, size int) []byte {
	var file bytes.Buffer
	text := strings.Repeat("x", size)
	for i := range n {
		fmt.Fprintf(&file, form, i, text)
	}
	return file.Bytes()
}

const (
	jsonForm = `{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map-%d", ` +
		`"namespace": "x"}, "data": {"key": "%s"}}}` + "\n"
	yamlForm = "---\noperation: CreateOrUpdate\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: map-%d, namespace: x}\n" +
		"  data:\n    key: \"%s\"\n"
)

// What a large file costs: JSON is not copied, or one document of it is in memory, and YAML is kept once, as JSON.
func TestLargeFiles(t *testing.T) {
	const size = 9 << 20
	for _, test := range []struct {
		name, form string
		// kept and made are bytes for each byte of the file: what is in use when it has been read, and what was allocated.
		kept, made float64
	}{
		{"JSON", jsonForm, 0.05, 0.2},
		{"documents", jsonForm, 0.05, 0.2},
		{"YAML", yamlForm, 1.1, 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := operations(test.form, size>>17, 1<<17)
			filters := jq.NewCompiler(jq.Options{})
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			parse := ParsePatches
			if test.name == "documents" {
				parse = read
			}
			patches, err := parse(file, filters)
			runtime.GC()
			runtime.ReadMemStats(&after)
			if err != nil || len(patches) != size>>17 {
				t.Fatal(len(patches), err)
			}
			kept := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / size
			made := float64(after.TotalAlloc-before.TotalAlloc) / size
			t.Logf("kept %.2f, allocated %.2f bytes for each byte, %d collections", kept, made, after.NumGC-before.NumGC)
			if kept > test.kept || made > test.made {
				t.Errorf("kept %.2f and allocated %.2f bytes for each byte of the file, want at most %.2f and %.2f", kept, made, test.kept, test.made)
			}
			runtime.KeepAlive(file)
			runtime.KeepAlive(patches)
		})
	}
}

// read is ReadPatches of a file with a text.
func read(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	return ReadPatches(io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text))), filters)
}

// Read one document at a time, a file has the same operations and the same errors.
func TestReadPatches(t *testing.T) {
	filters := jq.NewCompiler(jq.Options{})
	const others = `{"operation": "Sync", "set": "s", "objects": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}]}
{"operation": "JQPatch", "kind": "pod", "name": "a", "jqFilter": ".a = 1"}
{"operation": "MergePatch", "kind": "pod", "name": "a", "mergePatch": "b: 1"}
{"operation": "Condition", "kind": "Job", "name": "a", "type": "Ready", "status": "True", "reason": "Done"}`
	for _, text := range []string{
		others, string(operations(jsonForm, 3, 10)), string(operations(yamlForm, 3, 10)), "", "# nothing", `{"operation": "Crate"}`, `{"a`,
		others + `{"operation": "Delete", "kind": "Secret", "name": "a"}`, others + others,
	} {
		want, wantErr := ParsePatches([]byte(text), filters)
		got, err := read([]byte(text), filters)
		for i := range got {
			if text[0] == '{' && got[i].Size() != 0 && got[i].Condition == nil {
				t.Errorf("%s: what operation %d sends is in memory", text, i)
			}
			whole, err := got[i].Whole()
			if err != nil {
				t.Fatal(err)
			}
			got[i] = *whole
		}
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s: got\n%+v, %v\nwant\n%+v, %v", text, got, err, want, wantErr)
		}
	}
	changed := []byte(others)
	patches, err := read(changed, filters)
	if err != nil {
		t.Fatal(err)
	}
	patches[0].Set.Finalizers = []string{"f"}
	if whole, err := patches[0].Whole(); err != nil || len(whole.Set.Finalizers) != 1 {
		t.Errorf("the whole set: %+v, %v", whole, err)
	}
	changed[bytes.IndexByte(changed, 'v')] = 'w'
	if _, err := patches[0].Whole(); !errors.Is(err, errChanged) {
		t.Errorf("a file that was changed after it was checked: %v", err)
	}
	_, err = ReadPatches(io.NewSectionReader(bytes.NewReader(operations(yamlForm, 1, 1)), 0, maxYAML+1), filters)
	if err == nil || !strings.Contains(err.Error(), "YAML of more than 32 MiB is not read") {
		t.Errorf("a large file of YAML: %v", err)
	}
}

// Many small operations: all in order, or none because of the last one.
func TestManyOperations(t *testing.T) {
	const n = 10_000
	filters := jq.NewCompiler(jq.Options{})
	file := operations(jsonForm, n, 10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	patches, err := ParsePatches(file, filters)
	runtime.ReadMemStats(&after)
	if err != nil || len(patches) != n {
		t.Fatal(len(patches), err)
	}
	for i, p := range patches {
		if p.Number != i+1 || p.Name != fmt.Sprint("map-", i) {
			t.Fatalf("operation %d is %d, for %s", i, p.Number, p.Name)
		}
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 2_000 {
		t.Errorf("%d bytes were allocated for each operation", each)
	}
	patches, err = ParsePatches(append(file, `{"operation": "Crate"}`...), filters)
	if patches != nil || err == nil || strings.Count(err.Error(), "document ") != 1 ||
		!strings.Contains(err.Error(), "document 10001: operation") {
		t.Errorf("with a wrong one at the end: %d operations and %v", len(patches), err)
	}
}

// Manifests that need no change are sent as they are; others are encoded again and mean the same to us and to the
// server.
func TestSendable(t *testing.T) {
	for _, test := range []struct{ manifest, want string }{
		{`{"kind": "Pod", "metadata": {"name": "a"}}`, "as it is"},
		{`{"kind": "Pod"}`, "as it is"},
		{`{"kind": "Pod", "metadata": null}`, "as it is"},
		{`{"kind":"Pod","metadata":{"name":"a","uid":"1","managedFields":[{}]}}`, `{"kind":"Pod","metadata":{"name":"a"}}`},
		{`{"kind":"Pod","kind":"Secret"}`, `{"kind":"Secret"}`},
		{`{"metadata":{"name":"a"},"metadata":{"name":"b"}}`, `{"metadata":{"name":"b"}}`},
		{`{"metadata":{"name":"a","name":"b"}}`, `{"metadata":{"name":"b"}}`},
		{`{"metad\u0061ta":{"name":"b","uid":"1"}}`, `{"metadata":{"name":"b"}}`},
		{`{"metadata":{"n\u0061me":"b"}}`, `{"metadata":{"name":"b"}}`},
		{`{"metadata":[]}`, "no object"},
		{`{"metadata":{},"metadata":[]}`, "no object"},
		{`[]`, "no object"},
		{`{}`, "no object"},
		{`1`, "no object"},
	} {
		got := "as it is"
		text, err := sendable([]byte(test.manifest))
		switch {
		case err != nil:
			got = "no object"
		case string(text) != test.manifest:
			got = string(text)
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.manifest, got, test.want)
		}
	}
}

// FuzzSendable: whatever the manifest, what is sent is what encoding/json reads in it, without what only servers set.
func FuzzSendable(f *testing.F) {
	for _, seed := range []string{
		`{"kind": "Pod", "metadata": {"name": "a", "uid": "b"}}`, `{"a":1,"a":2}`, `{"metadata":{},"metadata":{"name":"b"}}`,
		`{"\u006detadata":{"uid":1}}`,
		`{"metadata":null,"x":{"metadata":[]}}`, `{"metadata":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		var want, got map[string]any
		var inner map[string]json.RawMessage
		var outer map[string]json.RawMessage
		if json.Unmarshal(text, &outer) != nil || len(outer) == 0 {
			outer = nil
		}
		isObject := outer != nil && (outer["metadata"] == nil || json.Unmarshal(outer["metadata"], &inner) == nil)
		sent, err := sendable(bytes.TrimSpace(text))
		if (err == nil) != isObject {
			t.Fatalf("%s: %v", text, err)
		}
		if err != nil {
			return
		}
		_ = json.Unmarshal(text, &want)
		if m, ok := want["metadata"].(map[string]any); ok {
			for _, key := range serverSet {
				delete(m, key)
			}
		}
		if err := json.Unmarshal(sent, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: sent %s: %v", text, sent, err)
		}
	})
}
