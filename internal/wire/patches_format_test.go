package wire

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// again parses what FormatPatch has written of an operation.
func again(t *testing.T, p effect.Patch) effect.Patch {
	t.Helper()
	text := written(t, FormatPatch(&p))
	patches, err := ParsePatches(text, jq.NewCompiler(jq.Options{}))
	if err != nil || len(patches) != 1 {
		t.Fatalf("%d operations, %v: %s", len(patches), err, text)
	}
	return patches[0]
}

// compact makes two forms of one operation equal: their place, the white space of their parts, and empty lists.
func compact(t *testing.T, p effect.Patch) effect.Patch {
	t.Helper()
	squeeze := func(text []byte) []byte {
		var b bytes.Buffer
		if len(text) == 0 {
			return nil
		}
		if err := json.Compact(&b, text); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	p.Number, p.Object, p.Body = 0, squeeze(p.Object), squeeze(p.Body)
	if p.Set != nil {
		set := *p.Set
		set.Objects = append([]effect.Member{}, set.Objects...)
		for i := range set.Objects {
			set.Objects[i].Object = squeeze(set.Objects[i].Object)
		}
		set.PruneKinds = append([]string{}, set.PruneKinds...)
		p.Set = &set
	}
	return p
}

// Every operation of the other tests is that of its form.
func TestFormatPatch(t *testing.T) {
	files, err := filepath.Glob("testdata/patches/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			patches, _ := ParsePatches(f.Data, jq.NewCompiler(jq.Options{}))
			for _, p := range patches {
				if got, want := compact(t, again(t, p)), compact(t, p); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got\n%+v, want\n%+v", f.Name, got, want)
				}
			}
		}
	}
}

// allFields has a value in each field of an operation that hooks can set.
func allFields(o effect.Operation) effect.Patch {
	p := effect.Patch{
		Operation: o, APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "p", Subresource: "status", IgnoreMissingObject: true, Force: true,
		IgnoreHookError: o == effect.MergePatch || o == effect.JSONPatch || o == effect.JQPatch || o == effect.SetCondition,
	}
	switch o {
	case effect.MergePatch:
		p.Body = []byte(`{"a":1}`)
	case effect.JSONPatch:
		p.Body = []byte(`[{"op":"remove","path":"/a"}]`)
	case effect.JQPatch:
		p.Filter = ".a = 1"
	case effect.SetCondition:
		p.Condition = &effect.Condition{Type: "Ready", Status: "False", Reason: "Why", Message: "m"}
	case effect.RecordEvent:
		p.Subresource, p.Event = "", &effect.Event{UID: "u", Type: "Normal", Reason: "Why", Action: "Do", Note: "n"}
	case effect.Delete, effect.DeleteInBackground, effect.DeleteNonCascading:
		p.Subresource = ""
	case effect.Sync:
		object := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"n"}}`)
		p = effect.Patch{Operation: o, Name: "s", Force: true, Set: &effect.ObjectSet{
			Name: "s", Owner: &effect.Owner{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "p", UID: "u"}, Force: true, Migrate: true,
			Restore:    false,
			Objects:    []effect.Member{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "m", Object: object}},
			PruneKinds: []string{"Namespace"},
		}}
	default:
		if o != effect.Create && o != effect.ServerSideApply {
			p.Subresource = ""
		}
		p.Object = []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"}}`)
	}
	return p
}

// A field that is added to an operation is in the form, or is named here.
func TestFormatPatchLeavesNothingOut(t *testing.T) {
	missing := fieldsOf[effect.Patch](
		"Patch.Number", "Patch.Read", // the place in the file
		"ObjectSet.Finalizers", "ObjectSet.Restore", // set by a run; a word, tested below
		"Condition.ObservedGeneration", "Condition.LastTransitionTime", // set when the condition is
	)
	for _, word := range effect.Operations() {
		p := allFields(effect.ParseOperation(word))
		got := compact(t, again(t, p))
		if want := compact(t, p); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", word, got, want)
		}
		missing.remove(reflect.ValueOf(got))
	}
	missing.check(t, "operation")
	restoring := allFields(effect.Sync)
	restoring.Set.Restore = true
	if !again(t, restoring).Set.Restore {
		t.Error("drift is not in the form")
	}
}
