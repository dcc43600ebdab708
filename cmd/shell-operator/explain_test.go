package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shell-operator/shell-operator/internal/schema"
)

// TestDescriptions checks that each property of each schema has a description and a valid example, or named values: editors and explain
// show them.
func TestDescriptions(t *testing.T) {
	chart, err := os.ReadFile("../../deploy/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(schemas)
	all["chart"] = bytes.ReplaceAll(chart, []byte("definitions"), []byte("$defs"))
	for name, text := range all {
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(name, root); err != nil {
			t.Fatal(err)
		}
		partOf := func(v any) part { // with its references
			own, _ := v.(map[string]any)
			own = maps.Clone(own)
			own["$defs"] = root["$defs"]
			text, _ := json.Marshal(own)
			s, err := schema.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return part{s, false}
		}
		described := 0
		var walk func(path string, v any)
		walk = func(path string, v any) {
			node, _ := v.(map[string]any)
			properties, _ := node["properties"].(map[string]any)
			for key, property := range properties {
				p := partOf(property)
				if text := p.Description; !strings.HasSuffix(strings.TrimRight(text, ")"), ".") && name != "chart" || text == "" {
					t.Errorf("%s: %s.%s has the description %q, which is no sentence", name, path, key, text)
				}
				described++
				if key != "$schema" && key != "id" && name != "chart" && len(p.values()) == 0 && p.kind() != "boolean" && p.example("") == "" {
					t.Errorf("%s: %s.%s has no example", name, path, key)
				}
			}
			if examples, _ := node["examples"].([]any); len(examples) > 0 && name != "chart" {
				compiled, err := compiler.Compile(name + "#" + path)
				if err != nil {
					t.Fatal(err)
				}
				for _, example := range examples {
					if err := compiled.Validate(example); err != nil {
						t.Errorf("%s: %s: %v", name, path, err)
					}
				}
			}
			for key, below := range node {
				walk(path+"/"+strings.ReplaceAll(key, "/", "~1"), below)
			}
			list, _ := v.([]any)
			for i, below := range list {
				walk(path+"/"+strconv.Itoa(i), below)
			}
		}
		walk("", root)
		if least := map[string]int{"result": 5, "context": 40}[name]; described < cmp.Or(least, 50) {
			t.Errorf("%s: only %d properties", name, described)
		}
	}
}

// TestAgents explains each key and page that AGENTS.md names, which has at most 60 lines.
func TestAgents(t *testing.T) {
	text, err := os.ReadFile("../../internal/dev/templates/AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 60 {
		t.Errorf("it has %d lines", n)
	}
	calls := regexp.MustCompile("`(?:shell-operator )?explain ([a-z][^`]*)`").FindAllStringSubmatch(string(text), -1)
	for _, call := range calls {
		output, args := formatText, strings.Fields(call[1])
		if len(args) == 3 {
			output, args = args[2], args[:1]
		}
		if out, err := explained(output, args); err != nil || out == "" {
			t.Errorf("explain %s: %v", call[1], err)
		}
	}
	if len(calls) < 15 {
		t.Errorf("only %d calls of explain are found", len(calls))
	}
}
