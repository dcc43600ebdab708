// Package schema checks values against the JSON Schemas that docs/reference publishes.
//
// Callers may rely on this:
//   - One mistake is one violation, at the path of the value that has to be changed. What is in an invalid value is not checked.
//   - A value without its violations fits: Check removes them from it.
//   - The type of a value selects one of several alternatives (oneOf).
//
// Not attempted: keywords that the published schemas do not use. The library for all of them costs 10 ms and 4 MiB at a start, because it
// compiles the schemas of JSON Schema first; the tests compare the verdicts.
package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// Schema describes values.
type Schema struct {
	// Types are the possible types in the words of JSON Schema; empty means all.
	Title string `json:"title"`
	// Description and Examples are for people.
	Description string             `json:"description"`
	Examples    []any              `json:"examples"`
	Types       words              `json:"type"`
	Properties  map[string]*Schema `json:"properties"`
	// Additional describes the keys that are not in Properties; nil means that they are ignored, or violations of a Closed schema.
	Additional *Schema  `json:"-"`
	Closed     bool     `json:"-"`
	Required   []string `json:"required"`
	Items      *Schema  `json:"items"`
	Enum       []string `json:"enum"`
	// Format names a check of texts. A pattern beside it is for other programs.
	Format  string   `json:"format"`
	Minimum *float64 `json:"minimum"`
	Maximum *float64 `json:"maximum"`
	// A maximum of 0 is no limit.
	MinItems      int `json:"minItems"`
	MaxItems      int `json:"maxItems"`
	MinProperties int `json:"minProperties"`
	MaxProperties int `json:"maxProperties"`
	MinLength     int `json:"minLength"`
	// Defs are the named parts of a whole schema.
	Defs map[string]*Schema `json:"$defs"`

	// Ref is kept, as the name of what is described. Const and AnyOf are not checked.
	Ref         string    `json:"$ref"`
	OneOf       []*Schema `json:"oneOf"`
	AnyOf       []*Schema `json:"anyOf"`
	Const       any       `json:"const"`
	Unevaluated *bool     `json:"unevaluatedProperties"`
	// More is a schema or false. Methods that unmarshal schemas would read each as often as it is deep.
	More   json.RawMessage `json:"additionalProperties"`
	linked bool
}

type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = make(words, 1)
	return json.Unmarshal(text, &(*w)[0])
}

// Parse reads a whole schema.
func Parse(text []byte) (*Schema, error) {
	root := new(Schema)
	if err := json.Unmarshal(text, root); err != nil {
		return nil, err
	}
	return root, root.link(root)
}

// link resolves the references of a schema and its parts.
func (s *Schema) link(root *Schema) error {
	if s == nil || s.linked {
		return nil
	}
	s.linked = true
	if s.Closed = string(s.More) == "false"; !s.Closed && s.More != nil {
		if err := json.Unmarshal(s.More, &s.Additional); err != nil {
			return err
		}
	}
	parts := slices.Concat(s.OneOf, s.AnyOf, slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.Defs)))
	for _, part := range append(parts, s.Items, s.Additional) {
		if err := part.link(root); err != nil {
			return err
		}
	}
	for _, one := range s.OneOf {
		s.Types = append(s.Types, one.Types...)
	}
	if len(s.Enum) > 0 && len(s.Types) == 0 {
		s.Types = words{"string"}
	}
	if s.Ref == "" {
		return nil
	}
	target := root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	if target == nil {
		return fmt.Errorf("there is no %s", s.Ref)
	}
	if err := target.link(root); err != nil {
		return err
	}
	own := *s
	*s = *target
	s.Ref, s.Title, s.Description = own.Ref, cmp.Or(own.Title, s.Title), cmp.Or(own.Description, s.Description)
	if own.Examples != nil {
		s.Examples = own.Examples
	}
	if own.Unevaluated != nil { // the properties of both are all
		s.Properties, s.Closed = maps.Clone(target.Properties), true
		maps.Copy(s.Properties, own.Properties)
	}
	return nil
}

// Keys are the known keys of a mapping, sorted, but those that are ignored.
func (s *Schema) Keys() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(key string) bool { return key == "$schema" || key == "id" })
}

// Rule is what a value violates.
type Rule int

const (
	Type Rule = iota
	Unknown
	Required
	Word
	Range
	Items
	Keys
	Text
)

// Violation is one mistake in a value.
type Violation struct {
	// Path leads to the value, or to the missing or unknown key, such as "kubernetes[1].kind"; Key is its last part.
	Path, Key string
	Rule      Rule
	// Schema is what the value should fit; of Unknown and Required, the one of the mapping.
	Schema *Schema
	Value  any
	// Problem is what is wrong, in words that follow the path. Hint is how to write a Text with a format.
	Problem, Hint string
}

// UnknownKey is the problem of such a key.
const UnknownKey = "is an unknown key"

// NotOneOf is the problem of an unknown word.
func NotOneOf(text string, allowed []string) string {
	if len(allowed) == 1 { // beside another type
		return fmt.Sprintf("is %q", text)
	}
	return fmt.Sprintf("should be one of [%s], not %q", strings.Join(allowed, " "), text)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Formats check texts by their format: they return a problem, and how to fix it.
type Formats map[string]func(text string) (problem, hint string)

// Check returns the violations of a value of JSON whose numbers are json.Number, and removes them from it: keys of mappings; items of lists
// become nil.
func (s *Schema) Check(value any, formats Formats) []Violation {
	c := checker{formats: formats}
	c.check(s, "", value)
	return c.violations
}

type checker struct {
	formats    Formats
	violations []Violation
}

// check reports whether a value can stay.
func (c *checker) check(s *Schema, path string, value any) bool {
	v := Violation{Path: path, Key: path[strings.LastIndexByte(path, '.')+1:], Schema: s, Value: value}
	broken := func(r Rule, format string, args ...any) bool {
		v.Rule, v.Problem = r, fmt.Sprintf(format, args...)
		c.violations = append(c.violations, v)
		return false
	}
	if !s.accepts(value) {
		return broken(Type, "must be of type %s: %q", strings.Join(s.Types, " or "), jq.TypeOf(value))
	}
	if i := slices.IndexFunc(s.OneOf, func(one *Schema) bool { return one.accepts(value) }); i >= 0 {
		return c.check(s.OneOf[i], path, value)
	}
	outside := func(size, least, most int) bool { return size < least || most > 0 && size > most }
	switch value := value.(type) {
	case map[string]any:
		if outside(len(value), s.MinProperties, s.MaxProperties) {
			return broken(Keys, "should have at least %s", count(s.MinProperties, "property", "properties"))
		}
		c.fields(s, path, value)
	case []any:
		switch {
		case len(value) < s.MinItems:
			return broken(Items, "should have at least %s", count(s.MinItems, "item", "items"))
		case outside(len(value), 0, s.MaxItems):
			return broken(Items, "has %d items", len(value))
		}
		for i, item := range value {
			if s.Items != nil && !c.check(s.Items, fmt.Sprintf("%s[%d]", path, i), item) {
				value[i] = nil
			}
		}
	case string:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
			return broken(Word, "%s", NotOneOf(value, s.Enum))
		}
		if check := c.formats[s.Format]; check != nil {
			problem, hint := check(value)
			if v.Hint = hint; problem != "" {
				return broken(Text, "%s", problem)
			}
		} else if len(value) < s.MinLength {
			return broken(Text, "is empty")
		}
	case json.Number:
		n, _ := value.Float64()
		whole := slices.Contains(s.Types, "integer")
		if s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum || whole && math.Abs(n) > math.MaxInt32 {
			return broken(Range, "is %s", value)
		}
	}
	return true
}

// fields checks the keys of a mapping and their values.
func (c *checker) fields(s *Schema, path string, fields map[string]any) {
	at := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	for _, key := range s.Required {
		if _, has := fields[key]; !has {
			c.violations = append(c.violations, Violation{Path: at(key), Key: key, Rule: Required, Schema: s, Problem: "is required"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		child, known := s.Properties[key]
		if !known {
			child = s.Additional
		}
		switch {
		case child == nil && s.Properties == nil:
			continue // all keys are free
		case child == nil && s.Closed:
			c.violations = append(c.violations, Violation{Path: at(key), Key: key, Rule: Unknown, Schema: s, Value: fields[key],
				Problem: UnknownKey})
		case child != nil && c.check(child, at(key), fields[key]):
			continue
		}
		delete(fields, key)
	}
}

// accepts reports whether a value has one of the types.
func (s *Schema) accepts(value any) bool {
	is := jq.TypeOf(value)
	n, _ := value.(json.Number)
	f, _ := n.Float64()
	return len(s.Types) == 0 || slices.Contains(s.Types, is) || is == "number" && slices.Contains(s.Types, "integer") && f == math.Trunc(f)
}
