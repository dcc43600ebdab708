package testfile

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

const schemaFile = "../../../docs/reference/test-file.schema.json"

// TestSchema compares the published schema with the reader: the same keys, each with a description, and the same verdict about files that
// have problems with keys and types.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	keys := func(path ...string) []string {
		at := tree
		for _, key := range append(path, "properties") {
			at, _ = at[key].(map[string]any)
		}
		for key, v := range at {
			if property, _ := v.(map[string]any); property["description"] == "" || property["description"] == nil {
				t.Errorf("%v: %s has no description", path, key)
			}
		}
		return slices.Sorted(maps.Keys(at))
	}
	inputs := slices.Collect(maps.Keys((&reader{}).inputs(&Case{})))
	for _, row := range []struct{ got, want []string }{
		{keys(), append([]string{"$schema", "hook", "cases"}, inputs...)},
		{keys("$defs", "case"), append([]string{"name", "expect"}, inputs...)},
		{keys("$defs", "expect"), append([]string{"exact", "subset"}, slices.Collect(maps.Keys(forms))...)},
		{keys("$defs", "event"), EventTypes},
	} {
		slices.Sort(row.want)
		if want := slices.Sorted(slices.Values(row.want)); !slices.Equal(row.got, want) {
			t.Errorf("the schema has the keys %q, the reader %q", row.got, want)
		}
	}
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	refused := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			var n yaml.Node
			if f.Name == "problems" || yaml.Unmarshal(f.Data, &n) != nil || len(n.Content) == 0 {
				continue
			}
			v, err := value(n.Content[0])
			if err != nil {
				continue
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var plain any
			if err := json.Unmarshal(text, &plain); err != nil {
				t.Fatal(err)
			}
			_, problems := Parse("/tests/"+f.Name, f.Data)
			err = schema.Validate(plain)
			if err != nil {
				refused++
			}
			if err != nil && len(problems) == 0 {
				t.Errorf("%s: the schema refuses what the reader accepts: %v", f.Name, err)
			}
		}
	}
	if refused < 20 {
		t.Errorf("the schema finds %d of the mistakes, fewer than 20", refused)
	}
}
