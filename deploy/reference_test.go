package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// schema is as much of the chart's schema as the reference shows.
type schema struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Enum        []string          `json:"enum"`
	Properties  map[string]schema `json:"properties"`
}

// TestReference keeps the table of values equal to the chart's: each has a default in values.yaml and an explanation in the
// schema.
func TestReference(t *testing.T) {
	pages.Part{Page: "../docs/reference/chart.md", Name: "values", Package: "./deploy"}.Check(t, valuesTable(t), *update)
}

func valuesTable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	delete(s.Properties, "global") // Helm's own
	if text, err = os.ReadFile("chart/values.yaml"); err != nil {
		t.Fatal(err)
	}
	var defaults yaml.Node
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n| value | default | meaning |\n|---|---|---|\n")
	rows(t, &b, "", s, defaults.Content[0])
	return b.String() + "\n"
}

// rows writes a row for each value, in the order of values.yaml.
func rows(t *testing.T, b *strings.Builder, prefix string, s schema, defaults *yaml.Node) {
	t.Helper()
	var seen []string
	for i := 0; i < len(defaults.Content); i += 2 {
		name, value := defaults.Content[i].Value, defaults.Content[i+1]
		seen = append(seen, name)
		part, ok := s.Properties[name]
		switch {
		case !ok:
			t.Errorf("values.schema.json has no %s%s", prefix, name)
		case len(part.Properties) > 0:
			rows(t, b, prefix+name+".", part, value)
		case part.Description == "":
			t.Errorf("values.schema.json does not explain %s%s", prefix, name)
		default:
			meaning := part.Description
			if len(part.Enum) > 0 && !strings.Contains(meaning, part.Enum[0]) {
				meaning += ": `" + strings.Join(part.Enum, "`, `") + "`"
			}
			fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, name, shown(t, value), meaning)
		}
	}
	for name := range s.Properties {
		if !slices.Contains(seen, name) {
			t.Errorf("values.yaml has no default for %s%s", prefix, name)
		}
	}
}

// shown is a default in one line.
func shown(t *testing.T, value *yaml.Node) string {
	t.Helper()
	var v any
	if err := value.Decode(&v); err != nil {
		t.Fatal(err)
	}
	switch text := v.(type) {
	case nil:
		return "—"
	case string:
		if text == "" {
			return "—"
		}
		return "`" + text + "`"
	}
	out, err := k8syaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := k8syaml.YAMLToJSON(out); err == nil {
		out = text
	}
	if slices.Contains([]string{"{}", "[]"}, string(out)) {
		return "—"
	}
	// JSON, but without the quotes that YAML does not need.
	return "`" + strings.ReplaceAll(strings.ReplaceAll(bare.ReplaceAllString(string(out), "$1"), ":", ": "), ",", ", ") + "`"
}

var bare = regexp.MustCompile(`"([A-Za-z_]+)"`)
