package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/schema"
)

// TestOneMistake draws configurations from the schema. A mistake in one is one violation, at its place.
// A complete implementation of JSON Schema has the same verdicts.
func TestOneMistake(t *testing.T) {
	root, err := configSchema()
	if err != nil {
		t.Fatal(err)
	}
	complete := reference(t)
	s := root.Defs["v1"]
	mistakes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		tree := drawValid(t, s)
		text := jsonOf(tree)
		if _, _, err := ParseConfig("h", "/h", text, testOptions()); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !complete(text) {
			t.Fatalf("only the parser accepts %s", text)
		}
		var all []mistake
		for _, p := range places(place{"", s, nil, tree, nil, nil}) {
			if p.path != "configVersion" && p.path != "" {
				all = append(all, p.mistakes()...)
			}
		}
		kinds := map[string][]mistake{}
		for _, m := range all {
			kinds[m.what] = append(kinds[m.what], m)
		}
		what := rapid.SampledFrom(slices.Sorted(maps.Keys(kinds))).Draw(t, "kind")
		m := rapid.SampledFrom(kinds[what]).Draw(t, "mistake")
		m.make()
		text = jsonOf(tree)
		_, _, err := ParseConfig("h", "/h", text, testOptions())
		var broken *ConfigError
		if !errors.As(err, &broken) || len(broken.Violations) != 1 || broken.Violations[0].Path != m.path ||
			!strings.Contains(broken.Violations[0].Problem, m.problem) {
			t.Fatalf("%s at %s in %s: %v", m.what, m.path, text, err)
		}
		if m.what != "a bad text" && complete(text) {
			t.Fatalf("only the parser rejects %s: %v", text, err)
		}
		if line, _ := Locate(text, m.path, ""); line == 0 {
			t.Fatalf("%s is nowhere in %s", m.path, text)
		}
		mistakes[m.what]++
	})
	if len(mistakes) < 3 {
		t.Errorf("only these mistakes: %v", mistakes)
	}
}

// reference returns the verdicts of a complete implementation.
func reference(t *testing.T) func(text []byte) bool {
	c := jsonschema.NewCompiler()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.HookSchema))
	if err != nil || c.AddResource("config", tree) != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config")
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) bool {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		return err == nil && s.Validate(v) == nil
	}
}

func jsonOf(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

// drawValid draws a configuration, and removes what is invalid only together.
func drawValid(t *rapid.T, s *schema.Schema) map[string]any {
	tree, _ := drawValue(t, s, "root").(map[string]any)
	tree["onStartup"] = json.Number("1")
	for {
		_, _, err := ParseConfig("h", "/h", jsonOf(tree), testOptions())
		if err == nil {
			return tree
		}
		all := places(place{"", s, nil, tree, nil, nil})
		var broken *ConfigError
		if !errors.As(err, &broken) {
			t.Fatal(err)
		}
		for path := broken.Violations[0].Path; path != ""; path = path[:strings.LastIndexAny(path, ".[")] {
			// without a required key, what needs it has to go
			if i := slices.IndexFunc(all, func(p place) bool { return p.path == path }); i >= 0 {
				all[i].remove()
				break
			}
		}
	}
}

// samples are valid texts by their format.
var samples = map[string][]string{
	"": {"a", "b", "a b"}, "go-duration": {"5s", "1m30s", "0s"}, "retry-delay": {"100ms", "1s", "5m"}, "jq": {".spec", "", "{a: .b}"},
	"lane-key": {"object", "namespace", ".spec.a"}, "crontab": {"* * * * *"}, "api-version": {"v1", "apps/v1"}, "namespace": {"a", "b"},
	"finalizer": {"a.com/b", "a.com/c"}, "condition-type": {"Ready", "a.com/Ready"}, "webhook-name": {"a.b.com", "b.b.com", "c.b.com"},
	"qualified-name": {"a", "b"}, "header": {"X-A", "x-b"}, "route": {"/a/{x}", "/b", "/"},
}

func drawValue(t *rapid.T, s *schema.Schema, name string) any {
	if len(s.OneOf) > 0 {
		return drawValue(t, rapid.SampledFrom(s.OneOf).Draw(t, name), name)
	}
	if len(s.Enum) > 0 {
		return rapid.SampledFrom(s.Enum).Draw(t, name)
	}
	if len(s.Types) == 0 {
		return "ignored"
	}
	switch s.Types[0] {
	case "object":
		fields := map[string]any{}
		keys := slices.Sorted(maps.Keys(s.Properties))
		for _, key := range keys {
			if slices.Contains(s.Required, key) || rapid.IntRange(0, 2).Draw(t, "has "+key) == 0 {
				fields[key] = drawValue(t, s.Properties[key], key)
			}
		}
		if s.Properties == nil {
			fields["a.com/b"] = drawValue(t, s.Additional, name)
		}
		for i := len(keys) - 1; len(fields) < s.MinProperties; i-- {
			fields[keys[i]] = drawValue(t, s.Properties[keys[i]], keys[i])
		}
		return fields
	case "array":
		list := []any{}
		for range rapid.IntRange(s.MinItems, s.MinItems+2).Draw(t, name) {
			list = append(list, drawValue(t, s.Items, name))
		}
		return list
	case "integer":
		least, most := 0, 30
		if s.Minimum != nil {
			least = int(*s.Minimum)
		}
		return json.Number(fmt.Sprint(rapid.IntRange(least, most).Draw(t, name)))
	case "boolean":
		return rapid.Bool().Draw(t, name)
	}
	return rapid.SampledFrom(samples[s.Format]).Draw(t, name)
}

// place is a value in a tree.
type place struct {
	path string
	// union has the alternatives, schema the one that fits.
	union, schema *schema.Schema
	value         any
	set           func(any)
	remove        func()
}

// places are all values in a tree.
func places(in place) (all []place) {
	in.schema = in.union
	for _, one := range in.union.OneOf {
		if len(one.Check(clone(in.value), nil)) == 0 {
			in.schema = one
		}
	}
	all = append(all, in)
	switch value := in.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			child := in.schema.Properties[key]
			if child == nil {
				child = in.schema.Additional
			}
			all = append(all, places(place{joined(in.path, key), child, nil, value[key], func(v any) { value[key] = v },
				func() { delete(value, key) }})...)
		}
	case []any:
		for i := range value {
			all = append(all, places(place{indexed(in.path, i), in.schema.Items, nil, value[i], func(v any) { value[i] = v },
				func() { in.set(slices.Delete(slices.Clone(value), i, i+1)) }})...)
		}
	}
	return all
}

func clone(v any) (same any) {
	d := json.NewDecoder(bytes.NewReader(jsonOf(v)))
	d.UseNumber()
	_ = d.Decode(&same)
	return same
}

// mistake is one that can be made in a configuration.
type mistake struct {
	what, path, problem string
	make                func()
}

// mistakes are all that can be made at a place.
func (p place) mistakes() (all []mistake) {
	add := func(what, path, problem string, make func()) { all = append(all, mistake{what, path, problem, make}) }
	for _, other := range []any{nil, true, json.Number("5"), "a", []any{}, map[string]any{}} {
		broken := p.union.Check(clone(other), nil)
		if len(broken) == 1 && broken[0].Rule == schema.Type {
			add("another type", p.path, "must be of type", func() { p.set(other) })
		}
	}
	if text, ok := p.value.(string); ok && len(p.schema.Enum) > 0 {
		add("an unknown word", p.path, "", func() { p.set(text + "x") })
	} else if ok && p.schema.Format != "" {
		add("a bad text", p.path, "", func() { p.set("/. /") })
	}
	fields, _ := p.value.(map[string]any)
	for key, value := range fields {
		at := joined(p.path, key)
		switch required := slices.Contains(p.schema.Required, key); {
		case required:
			add("a missing key", at, "is required", func() { delete(fields, key) })
		case p.schema.Properties[key] != nil && p.schema.Closed && len(fields) > p.schema.MinProperties:
			add("a misspelt key", at+"x", "is an unknown key", func() { delete(fields, key); fields[key+"x"] = value })
		}
	}
	return all
}
