package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDescriptions checks that each property of each schema has a description: editors and explain show it.
func TestDescriptions(t *testing.T) {
	chart, err := os.ReadFile("../../deploy/chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(schemas)
	all["chart"] = chart
	for name, text := range all {
		var s schema
		if err := json.Unmarshal(text, &s.root); err != nil {
			t.Fatal(err)
		}
		described := 0
		var walk func(path string, v any)
		walk = func(path string, v any) {
			node, _ := v.(map[string]any)
			properties, _ := node["properties"].(map[string]any)
			for key, property := range properties {
				if text, _ := s.at(property).node["description"].(string); !strings.HasSuffix(strings.TrimRight(text, ")"), ".") && name != "chart" ||
					text == "" {
					t.Errorf("%s: %s.%s has the description %q, which is no sentence", name, path, key, text)
				}
				described++
			}
			for key, below := range node {
				walk(path+"/"+key, below)
			}
			list, _ := v.([]any)
			for _, below := range list {
				walk(path, below)
			}
		}
		walk("", s.root)
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
		output, args := string(formatText), strings.Fields(call[1])
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
