package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/docs"
)

// TestKeywords checks that no keyword of the schemas is ignored, but those that check nothing or that a format replaces.
func TestKeywords(t *testing.T) {
	known := []string{"$schema", "description", "examples", "deprecated", "if", "then", "else"} // if selects the version, as callers do
	for f := range reflect.TypeFor[Schema]().Fields() {
		known = append(known, f.Tag.Get("json"))
	}
	var walk func(file string, v any, named bool)
	walk = func(file string, v any, named bool) {
		fields, _ := v.(map[string]any)
		for key, value := range fields {
			names := !named && slices.Contains([]string{"properties", "$defs"}, key)
			switch {
			case !named && (key == "if" || key == "examples"):
				continue
			case !named && key == "pattern" && fields["format"] == nil, !named && key != "pattern" && !slices.Contains(known, key):
				t.Errorf("%s: %s is not implemented", file, key)
			default:
				walk(file, value, names)
			}
			list, _ := value.([]any)
			for _, item := range list {
				walk(file, item, false)
			}
		}
	}
	for file, text := range map[string][]byte{"hook": docs.HookSchema, "result": docs.ResultSchema, "test": docs.TestSchema} {
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		walk(file, tree, false)
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, err := Parse([]byte(`{"items": {"$ref": "#/$defs/none"}}`)); err == nil || !strings.Contains(err.Error(), "#/$defs/none") {
		t.Errorf("a reference that leads nowhere: %v", err)
	}
}
