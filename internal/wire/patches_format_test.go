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

// The form of each operation of the other tests parses to the operation.
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
