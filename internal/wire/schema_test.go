package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// validates checks a JSON text against one of the other schemas.
func validates(t *testing.T, schema string, text []byte) {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../docs/reference/" + schema + ".schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// TestOperationSchemaAgrees checks that the schema of operations has each operation and key, and accepts what the parser accepts.
func TestOperationSchemaAgrees(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/operation.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, word := range effect.Operations() {
		if len(schema.Defs[word].Properties) == 0 {
			t.Errorf("the schema has no %s", word)
		}
		for key := range schema.Defs[word].Properties {
			described[key] = true
		}
	}
	for _, key := range keys {
		if !described[key] {
			t.Errorf("no operation of the schema has %q", key)
		}
		delete(described, key)
	}
	if len(described) > 0 {
		t.Errorf("operations have no such keys: %v", described)
	}
	files, err := filepath.Glob("testdata/patches/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			patches, _ := ParsePatches(f.Data, jq.NewCompiler(jq.Options{}))
			for i := range patches {
				validates(t, "operation", written(t, FormatPatch(&patches[i])))
			}
		}
	}
}
