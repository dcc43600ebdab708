package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/schema"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// configSchema is the published one.
var configSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Parse(docs.HookSchema) })

// structure checks a tree by a schema, and decodes what of it is valid.
func (p *parser) structure(s *schema.Schema, into any) {
	for _, v := range s.Check(p.tree, p.formats()) {
		p.explain(&v)
	}
	text, err := json.Marshal(p.tree)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil { // a bug: what fits the schema fits the type
		p.violation("", "cannot be read: "+err.Error(), "")
	}
}

// remember keeps the bindings as they are before what is invalid is removed.
func (p *parser) remember() {
	p.bindings = map[string]map[string]any{}
	for key, value := range p.tree {
		list, _ := value.([]any)
		for i, item := range list {
			fields, _ := item.(map[string]any)
			p.bindings[indexed(key, i)] = maps.Clone(fields)
		}
	}
}

// binding is the one that a path leads into; nil if there is none.
func (p *parser) binding(path string) map[string]any {
	at, _, _ := strings.Cut(path, "]")
	return p.bindings[at+"]"]
}

// violation adds a mistake, with the name of the binding that has it.
func (p *parser) violation(path, problem, hint string) {
	name, _ := p.binding(path)["name"].(string)
	p.violations = append(p.violations, Violation{path, name, problem, hint})
}

// valid reports whether nothing is wrong at a path and below.
func (p *parser) valid(path string) bool {
	return !slices.ContainsFunc(p.violations, func(v Violation) bool { return strings.HasPrefix(v.Path, path) })
}

// explain adds a violation with a hint for its key.
func (p *parser) explain(v *schema.Violation) {
	path := v.Path
	if slices.Contains(v.Schema.Enum, "Deleting") && p.binding(path)["finalizer"] == nil {
		without := *v.Schema
		without.Enum = slices.DeleteFunc(slices.Clone(without.Enum), func(word string) bool { return word == "Deleting" })
		v.Schema = &without
	}
	problem, hint := Explain(v)
	if v.Rule == schema.Keys && path == "" {
		path, hint = "configuration",
			`begin it with "configVersion: v1" and add a binding, such as onStartup, schedule or kubernetes; settings alone disable the hook`
	}
	p.violation(path, problem, hint)
}

// Explain returns what is wrong with a value that does not fit its schema, in words that follow its path, and how to fix it.
func Explain(v *schema.Violation) (problem, hint string) {
	key, problem, hint := v.Key, v.Problem, v.Hint
	switch v.Rule {
	case schema.Type:
		hint = cmp.Or(hintForType(v), hints[key], like(v.Schema))
	case schema.Unknown:
		hint = hintForKey(v)
		if (key == "key" || key == "concurrency") && slices.Equal(v.Schema.Keys(), []string{"name"}) {
			problem, hint = "is only for kubernetes bindings", "name the queue only: its kubernetes bindings declare key and concurrency"
		}
	case schema.Word:
		text := fmt.Sprint(v.Value)
		problem, hint = notOneOf(text, v.Schema.Enum), suggestion(text, v.Schema.Enum)
	case schema.Range:
		if f, _ := v.Value.(json.Number).Float64(); math.Abs(f) > math.MaxInt32 {
			hint = fmt.Sprintf("use a number between -%d and %[1]d", math.MaxInt32)
		} else if v.Schema.Maximum != nil {
			hint = fmt.Sprintf("use %v to %v", *v.Schema.Minimum, *v.Schema.Maximum)
		} else if hints[key] == "" {
			hint = fmt.Sprintf("use %v or more", *v.Schema.Minimum)
		}
	case schema.Items:
		hint = "add one; an optional key may be left out"
		if len(v.Value.([]any)) > v.Schema.MinItems {
			hint = cmp.Or(hints[key], fmt.Sprintf("use at most %d", v.Schema.MaxItems))
		}
	case schema.Keys:
		hint = "add one of " + strings.Join(v.Schema.Keys(), ", ")
		if n := len(v.Value.(map[string]any)); n > v.Schema.MinProperties {
			problem, hint = fmt.Sprintf("has %d keys", n), "keep one of them"
		}
	}
	return problem, cmp.Or(hint, hints[key])
}

// hints are for keys whose violation has no other hint.
var hints = map[string]string{
	"kind":           `name a kind such as "Pod", a plural or a short name`,
	"executionBurst": "use 1 or more", "limit": "use 1 or more, or 0 for no limit",
	"contextsPerRun": "use auto, 0 for all contexts, or the maximum per run",
	"worker":         "write true, or {maxAge: 1h, maxRuns: 10000, idleTimeout: 10m}",
	"maxRuns":        "use 0 for no limit, or the number of runs after which a worker is replaced",
	"maxFileBytes":   "use a number of bytes, such as 104857600 for 100 MiB",
	"maxLogBytes":    "use a number of bytes, such as 1048576 for 1 MiB",
	"requeue":        "list at most 1000, and use requeueAfter for the rest",
	"giveUp":         "write the reason", "after": `write a duration such as "5m"`,
}

// longForms are hints for keys whose value is often given as a plain string.
var longForms = map[string]string{
	"namespace":         "write {nameSelector: {matchNames: [%s]}}",
	"nameSelector":      "write {matchNames: [%s]}",
	"namespaceSelector": "write {matchNames: [%s]}",
	"labelSelector":     "write {matchLabels: {KEY: VALUE}} for %q",
	"fieldSelector":     "write {matchExpressions: [{field: FIELD, operator: Equals, value: VALUE}]} for %q",
}

// quoteBooleans is the hint for a word that YAML reads as a boolean.
const quoteBooleans = "YAML reads a bare y, yes, on, true, n, no, off or false as a boolean: write it in quotes"

// isBoolean reports whether a key is what YAML reads a bare y, n, on, … as.
func isBoolean(key string) bool { return key == "true" || key == "false" }

func hintForType(v *schema.Violation) string {
	text, isText := v.Value.(string)
	is, long := jq.TypeOf(v.Value), longForms[v.Key]
	wants := func(t string) bool { return slices.Contains(v.Schema.Types, t) }
	_, err := strconv.Atoi(text)
	switch {
	case v.Value == nil:
		return "set a value or omit the key"
	case isText && text != "" && long != "" && wants("object"):
		return fmt.Sprintf(long, text)
	case isText && wants("integer") && err != nil:
		return "write a number"
	case isText && wants("boolean") && !wants("object") && !isBoolean(text):
		return "write true or false"
	case isText && !wants("object") && (wants("integer") || wants("boolean")):
		return "write it without quotes"
	case is == "number" && v.Schema.Title == "duration":
		if d, err := time.ParseDuration(fmt.Sprint(v.Value, "s")); err == nil && d >= 0 {
			return fmt.Sprintf("write it with a unit: %ss", v.Value)
		}
		return "write it with a unit, such as 5s"
	case len(v.Schema.Enum) > 0 && (is == "boolean" || is == "number"):
		return "use one of " + strings.Join(v.Schema.Enum, ", ")
	case wants("string") && wants("integer"):
		return hints[v.Key]
	case wants("string") && is == "boolean":
		return quoteBooleans
	case wants("string") && is == "number":
		return "write it in quotes"
	case wants("array"):
		return "write a list, even for one item"
	case v.Key == "retry" && is == "number":
		return fmt.Sprintf("write {limit: %s}", v.Value)
	}
	return ""
}

// like has an example of a value, or its keys.
func like(s *schema.Schema) string {
	if len(s.Examples) > 0 {
		example, _ := json.Marshal(s.Examples[0])
		return "write it like " + string(example)
	}
	if s.Closed {
		return "write a mapping; known keys: " + strings.Join(s.Keys(), ", ")
	}
	return ""
}

// hintForKey is the hint for an unknown key: the one that was meant, also in the words of the Kubernetes API and of other bindings.
func hintForKey(v *schema.Violation) string {
	key, known := v.Key, v.Schema.Keys()
	knows := func(name string) bool { return slices.Contains(known, name) }
	value, _ := v.Value.(map[string]any)
	near, within := spelling.Nearest(key, known), holders(v.Schema, key)
	switch {
	case isBoolean(key):
		return quoteBooleans
	case key == "namespaceSelector" && knows("namespace") && value["matchNames"] != nil:
		return "its name here is namespace: {nameSelector: …}"
	case key == "namespaceSelector" && knows("namespace"):
		return "its name here is namespace: {labelSelector: …}"
	case key == "objectSelector" && knows("labelSelector"):
		return "its name here is labelSelector"
	case knows("matchLabels") && knows("matchExpressions") && jq.TypeOf(v.Value) == "string":
		return fmt.Sprintf("write {matchLabels: {%s: %s}}", key, v.Value)
	case len(within) == 1:
		return fmt.Sprintf("write it in %s", within[0])
	case near != "":
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "remove it; known here: " + strings.Join(known, ", ")
}

// holders returns the keys of a mapping below which another key is known.
func holders(s *schema.Schema, key string) (names []string) {
	for _, name := range s.Keys() {
		value := s.Properties[name]
		if slices.ContainsFunc(append(value.OneOf, value), func(s *schema.Schema) bool { return slices.Contains(s.Keys(), key) }) {
			names = append(names, name+": {"+key+": …}")
		} else if value.Items != nil && slices.Contains(value.Items.Keys(), key) {
			names = append(names, "an item of "+name)
		}
	}
	return names
}

var notOneOf = schema.NotOneOf

// verbs are events in the words of webhooks and of kubectl.
var verbs = map[string]string{
	"create": "Added", "created": "Added", "update": "Modified", "updated": "Modified", "change": "Modified", "changed": "Modified",
	"patch": "Modified", "delete": "Deleted", "remove": "Deleted", "removed": "Deleted",
}

// suggestion returns the allowed value that is most like text, also in the words of kubectl.
func suggestion(text string, allowed []string) string {
	near := spelling.Nearest(text, allowed)
	if other := verbs[strings.ToLower(text)]; slices.Contains(allowed, other) {
		near = other
	}
	switch {
	case text == http.MethodOptions:
		return "the operator answers OPTIONS itself"
	case near == "":
		return ""
	}
	return fmt.Sprintf("did you mean %q?", near)
}

func joined(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }
func indexed(path string, i int) string {
	return fmt.Sprintf("%s[%d]", path, i)
}
