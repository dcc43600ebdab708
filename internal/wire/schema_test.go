package wire

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestSchemaAgrees compares the published JSON Schema with the parser, on all configurations of TestParseConfig. What the
// parser accepts the schema must accept. What it refuses because of a key, a type or a list of words the schema must refuse.
func TestSchemaAgrees(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "reference", "hook-configuration.schema.json"))
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

// sayable tells whether a JSON Schema can say what is wrong.
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
