package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

const schemaFile = "../../docs/reference/hook-configuration.schema.json"

// TestSchemaAgrees compares the published JSON Schema with the parser, on all configurations of TestParseConfig. What the
// parser accepts the schema must accept. What it refuses because of a key, a type or a list of words the schema must refuse.
func TestSchemaAgrees(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	agreed, accepted := 0, 0
	for _, path := range golden.Files(t, configFiles) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			text, err := yaml.YAMLToJSON(f.Data)
			if strings.HasSuffix(f.Name, ".want") || err != nil {
				continue
			}
			config, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
			if err != nil {
				continue
			}
			broken := schema.Validate(config)
			_, _, refused := ParseConfig("hook.sh", "/hooks/hook.sh", f.Data, testOptions())
			switch {
			case refused == nil && broken != nil:
				t.Errorf("%s, %s: accepted, but not by the schema: %v", filepath.Base(path), f.Name, broken)
			case refused != nil && broken == nil && sayable(refused.Error()):
				t.Errorf("%s, %s: accepted by the schema, but: %v", filepath.Base(path), f.Name, refused)
			case refused != nil && broken != nil:
				agreed++
			case refused == nil:
				accepted++
			}
		}
	}
	t.Logf("%d configurations accepted by both, %d refused by both", accepted, agreed)
	if agreed < 30 || accepted < 50 {
		t.Errorf("too few configurations to compare: %d accepted, %d refused", accepted, agreed)
	}
}

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
	for _, key := range KeysOf[Operation]() {
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

// TestSchemaDescribesEveryProperty checks that editors have something to show for each key.
func TestSchemaDescribesEveryProperty(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	described := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		node, ok := v.(map[string]any)
		if !ok {
			return
		}
		properties, _ := node["properties"].(map[string]any)
		for name, p := range properties {
			property, _ := p.(map[string]any)
			ref, _ := property["$ref"].(string)
			target, _ := root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			if property["description"] == nil && target["description"] == nil {
				t.Errorf("%s.%s has no description", path, name)
			}
			described++
		}
		for name, child := range node {
			walk(path+"/"+name, child)
		}
	}
	walk("", root)
	if described < 100 {
		t.Errorf("only %d properties", described)
	}
}

// sayable reports whether a JSON Schema can express the rule.
func sayable(problem string) bool {
	// What a selector means is up to Kubernetes, and the old format reads keys in any case.
	if strings.Contains(problem, "is not a selector") || strings.Contains(problem, "onKubernetesEvent[") {
		return false
	}
	for _, words := range []string{"is not a known key", "is required", "must be", "unknown key"} {
		if strings.Contains(problem, words) {
			return true
		}
	}
	return false
}
