package deploy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// TestReference keeps what is derived from values.yaml equal to it: the table of values in two pages, and the descriptions in
// the schema. The settings in the schema equal the flags' reference.
func TestReference(t *testing.T) {
	var values, schema yaml.Node
	decode(t, read(t, "chart/values.yaml"), &values)
	text := read(t, "chart/values.schema.json")
	decode(t, text, &schema)
	root := schema.Content[0]
	*field(field(root, "properties"), "settings") = settingsSchema(t)
	var table strings.Builder
	table.WriteString("\n| value | default | meaning |\n|---|---|---|\n")
	describe(t, &table, "", field(root, "properties"), values.Content[0])
	table.WriteString("\n")
	for _, page := range []string{"../docs/reference/chart.md", "chart/README.md"} {
		pages.Part{Page: page, Name: "values", Package: "./deploy"}.Check(t, table.String())
	}
	var b strings.Builder
	writeJSON(t, &b, root, "")
	golden.Compare(t, "chart/values.schema.json", b.String()+"\n")
}

func decode(t *testing.T, text string, into *yaml.Node) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// field is the value of a key of a map, nil without it.
func field(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// comment is the description of a value: the lines above it from the one with "# --" on.
func comment(key *yaml.Node) string {
	_, text, _ := strings.Cut(key.HeadComment, "# -- ")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n# ", "\n")), " ")
}

// describe writes a row for each value, in the order of values.yaml, and its description into the schema.
func describe(t *testing.T, b *strings.Builder, prefix string, properties, values *yaml.Node) {
	t.Helper()
	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := prefix + key.Value
		of := field(properties, key.Value)
		if of == nil {
			t.Errorf("values.schema.json has no %s", name)
			continue
		}
		meaning := comment(key)
		if below := field(of, "properties"); meaning == "" && below != nil && value.Kind == yaml.MappingNode {
			describe(t, b, name+".", below, value)
			continue
		}
		if meaning == "" {
			t.Errorf("values.yaml has no comment # -- above %s", name)
		}
		setDescription(of, meaning)
		if enum := field(of, "enum"); enum != nil && !strings.Contains(meaning, enum.Content[0].Value) {
			var choices []string
			for _, c := range enum.Content {
				choices = append(choices, "`"+c.Value+"`")
			}
			meaning += ": " + strings.Join(choices, ", ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, shown(t, value), meaning)
	}
	for i := 0; i < len(properties.Content); i += 2 {
		if name := properties.Content[i].Value; field(values, name) == nil && prefix+name != "global" {
			t.Errorf("values.yaml has no default for %s%s", prefix, name)
		}
	}
}

func setDescription(of *yaml.Node, text string) {
	if d := field(of, "description"); d != nil {
		d.Value = text
		return
	}
	of.Content = append(of.Content, scalar("description"), scalar(text))
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// flagRow is a row of the reference of flags: flag, variable, type, default, meaning; and a place for the word of a type "integer or auto".
var flagRow = regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)` \\| `(\\w+)` \\| ([^|]+) \\| [^|]* \\| ((?:[^|]|\\\\\\|)+) \\|()$")

// settings are the flags with their variables and types.
func settings(t *testing.T) [][]string {
	t.Helper()
	_, table, _ := strings.Cut(read(t, "../docs/reference/command-line.md"), "<!-- flags: ")
	table, _, _ = strings.Cut(table, "<!-- end of flags -->")
	rows := flagRow.FindAllStringSubmatch(table, -1)
	if all := strings.Count(table, "\n| `--"); len(rows) != all || all < 60 {
		t.Fatalf("%d of %d flags of docs/reference/command-line.md are understood", len(rows), all)
	}
	for _, row := range rows { // "integer or `auto`" is an integer, or this word
		row[3], row[5], _ = strings.Cut(row[3], " or ")
	}
	return rows
}

// settingsSchema are the settings by the names of their flags.
func settingsSchema(t *testing.T) yaml.Node {
	t.Helper()
	types := map[string]string{
		"string": `"type": "string"`, "boolean": `"type": "boolean"`, "integer": `"type": "integer"`, "number": `"type": "number"`,
		"duration": `"type": "string", "pattern": "^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$"`,
		"list":     `"type": ["array", "string"], "items": {"type": "string"}`,
	}
	var properties []string
	for _, row := range settings(t) {
		typ, ok := types[row[3]]
		if !ok {
			t.Errorf("--%s has the type %q: add it here", row[1], row[3])
		}
		if strings.HasSuffix(row[1], "-port") {
			typ = `"type": ["integer", "string"], "pattern": "^[0-9]+$"`
		}
		if word := strings.Trim(row[5], "`"); word != "" {
			typ = fmt.Sprintf(`"anyOf": [{%s}, {"enum": [%q]}]`, typ, word)
		}
		meaning, err := json.Marshal(strings.ReplaceAll(row[4], `\|`, "|"))
		if err != nil {
			t.Fatal(err)
		}
		properties = append(properties, fmt.Sprintf(`%q: {%s, "description": %s}`, row[1], typ, meaning))
	}
	var n yaml.Node
	decode(t, `{"type": "object", "additionalProperties": false, "properties": {`+strings.Join(properties, ", ")+`}}`, &n)
	return *n.Content[0]
}

// writeJSON writes JSON with the keys in their order.
func writeJSON(t *testing.T, b *strings.Builder, n *yaml.Node, indent string) {
	t.Helper()
	list := func(open, closed string, step int) {
		b.WriteString(open)
		for i := 0; i < len(n.Content); i += step {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n" + indent + "  ")
			if step == 2 {
				writeJSON(t, b, n.Content[i], "")
				b.WriteString(": ")
			}
			writeJSON(t, b, n.Content[i+step-1], indent+"  ")
		}
		if len(n.Content) > 0 {
			b.WriteString("\n" + indent)
		}
		b.WriteString(closed)
	}
	switch {
	case n.Kind == yaml.MappingNode:
		list("{", "}", 2)
	case n.Kind == yaml.SequenceNode:
		list("[", "]", 1)
	case n.Tag == "!!str":
		var line strings.Builder
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(n.Value); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.TrimSpace(line.String()))
	default:
		b.WriteString(n.Value)
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

// TestSettings gives the chart each setting: it is a variable of the operator, or is rejected with what to set instead, as those whose
// variable the chart or the image sets.
func TestSettings(t *testing.T) {
	var variables string // that the chart sets
	for _, values := range []string{regexp.MustCompile("(?m)^settings: .*").ReplaceAllString(everything, ""), "shards: 3",
		"kubernetesEvents: false\nhooks: {git: {repository: https://example.com/hooks.git}}"} {
		manifest, problem := render(t, "shop", values)
		if problem != "" {
			t.Fatal(problem)
		}
		variables += manifest
	}
	examples := map[string][2]string{"string": {"text", "text"}, "boolean": {"true", "true"}, "integer": {"1000000", "1000000"},
		"number": {"1.5", "1.5"}, "duration": {"90s", "90s"}, "list": {"[a, b]", "a,b"}}
	var all strings.Builder
	want := map[string]string{}
	for _, row := range settings(t) {
		flag, variable, example := row[1], row[2], examples[row[3]]
		if strings.HasSuffix(flag, "-port") {
			example = [2]string{"9999", "9999"}
		}
		values := "settings: {" + flag + ": " + example[0] + "}"
		own := regexp.MustCompile("name: "+variable+"\\b").MatchString(variables) && flag != "hook-timeout" // its value is a default
		if own || flag == "tracing-otlp-auth-token" {
			if _, problem := render(t, "shop", values); !strings.Contains(problem, "settings."+flag+" has no effect in this chart: set ") {
				t.Errorf("the chart sets %s, but %s is not rejected: add it to managedSettings; %s", variable, values, problem)
			}
			continue
		}
		want[variable] = example[1]
		fmt.Fprintf(&all, "  %s: %s\n", flag, example[0])
	}
	var containers []struct {
		Env []struct{ Name, Value string }
	}
	text := rendered(t, "settings:\n"+all.String()).at(t, "Deployment/shop-shell-operator", "spec", "template", "spec", "containers")
	if err := k8syaml.Unmarshal([]byte(text), &containers); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range containers[0].Env {
		got[v.Name] = v.Value
	}
	for variable, value := range want {
		if got[variable] != value {
			t.Errorf("%s is %q, want %q", variable, got[variable], value)
		}
	}
}
