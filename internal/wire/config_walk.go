package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// object is one level of a configuration. Its methods read keys; an invalid value becomes a violation and
// returns the zero value. close reports the keys that have not been read.
type object struct {
	p      *parser
	path   string
	fields map[string]any
	// binding is the name of the binding that contains the object.
	binding string
	// lenient objects are those of v0: keys in any case, scalars as strings, null as absent, unknown keys ignored.
	lenient bool
	known   []string
}

func joined(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }
func indexed(path string, i int) string {
	return fmt.Sprintf("%s[%d]", path, i)
}

func (o *object) violation(key, problem, hint string) {
	path := o.path
	if key != "" {
		path = joined(path, key)
	}
	o.p.violations = append(o.p.violations, Violation{Path: path, Binding: o.binding, Problem: problem, Hint: hint})
}

// lookup returns the value of a key and whether the key is present.
func (o *object) lookup(key string) (any, bool) {
	o.known = append(o.known, key)
	v, ok := o.fields[key]
	if o.lenient {
		if !ok {
			for _, k := range slices.Sorted(maps.Keys(o.fields)) {
				if strings.EqualFold(k, key) {
					v, ok = o.fields[k], true
				}
			}
		}
		ok = ok && v != nil
	}
	return v, ok
}

func (o *object) has(key string) bool {
	_, ok := o.lookup(key)
	return ok
}

func (o *object) wrongType(key, want string, v any) {
	hint := hintForType(want, v)
	if text, ok := v.(string); ok && want == "object" && text != "" {
		if shape := longForms[key]; shape != "" {
			hint = fmt.Sprintf(shape, text)
		}
	}
	o.violation(key, fmt.Sprintf("must be of type %s: %q", want, jq.TypeOf(v)), hint)
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

func hintForType(want string, v any) string {
	text, isText := v.(string)
	switch {
	case v == nil:
		return "set a value or omit the key"
	case isText && want == "integer":
		if _, err := strconv.Atoi(text); err != nil {
			return "write a number"
		}
		return "write it without quotes"
	case isText && want == "boolean":
		if !isBoolean(text) {
			return "write true or false"
		}
		return "write it without quotes"
	case want == "string" && jq.TypeOf(v) == "boolean":
		return quoteBooleans
	case want == "string" && jq.TypeOf(v) == "number":
		return "write it in quotes"
	case want == "array":
		return "write a list, even for one item"
	}
	return ""
}

func (o *object) text(key string) string {
	v, ok := o.lookup(key)
	if !ok {
		return ""
	}
	text, ok := o.asText(v)
	if !ok {
		o.wrongType(key, "string", v)
		return ""
	}
	return text
}

func (o *object) asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), o.lenient
	case json.Number:
		return v.String(), o.lenient
	}
	return "", false
}

func (o *object) required(key string) {
	if !o.has(key) {
		o.violation(key, "is required", "")
	}
}

func (o *object) requiredText(key string) string {
	o.required(key)
	return o.text(key)
}

// oneOf reads a string and checks that it is allowed.
func (o *object) oneOf(key string, allowed ...string) string {
	text := o.text(key)
	if v, ok := o.lookup(key); ok && jq.TypeOf(v) == "string" && !slices.Contains(allowed, text) {
		o.violation(key, notOneOf(text, allowed), suggestion(text, allowed))
	}
	return text
}

func notOneOf(text string, allowed []string) string {
	return fmt.Sprintf("should be one of [%s], not %q", strings.Join(allowed, " "), text)
}

// verbs are events in the words of webhooks and of kubectl.
var verbs = map[string]string{
	"create": "Added", "created": "Added", "update": "Modified", "updated": "Modified", "change": "Modified", "changed": "Modified",
	"patch": "Modified", "delete": "Deleted", "remove": "Deleted", "removed": "Deleted",
}

// suggestion returns the allowed value that is most like text, or of which text is a prefix, such as Add of Added.
func suggestion(text string, allowed []string) string {
	near := spelling.Nearest(text, allowed)
	if other := verbs[strings.ToLower(text)]; slices.Contains(allowed, other) {
		near = other
	}
	for _, a := range allowed {
		if near == "" && len(text) > 1 && len(a) > len(text) && strings.EqualFold(a[:len(text)], text) {
			near = a
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", near)
}

func (o *object) truth(key string, def bool) bool {
	v, ok := o.lookup(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		o.wrongType(key, "boolean", v)
	}
	return b
}

// integer returns nil when the key is absent.
func (o *object) integer(key string) *int {
	v, ok := o.lookup(key)
	if !ok {
		return nil
	}
	n, isNumber := v.(json.Number)
	f, err := n.Float64()
	switch {
	case !isNumber || err == nil && f != math.Trunc(f):
		o.wrongType(key, "integer", v)
		return nil
	case err != nil || math.Abs(f) > math.MaxInt32:
		o.violation(key, fmt.Sprintf("is %s", n), fmt.Sprintf("use a number between -%d and %[1]d", math.MaxInt32))
		return nil
	}
	i := int(f)
	return &i
}

// duration reads a duration in Go's notation.
func (o *object) duration(key string) *time.Duration {
	if n, ok := o.number(key); ok {
		hint := "write it with a unit, such as 5s"
		if d, err := time.ParseDuration(n.String() + "s"); err == nil && d >= 0 {
			hint = fmt.Sprintf("write it with a unit: %ss", n)
		}
		o.violation(key, `must be of type string: "number"`, hint)
		return nil
	}
	text := o.text(key)
	if v, ok := o.lookup(key); !ok || jq.TypeOf(v) != "string" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		o.violation(key, fmt.Sprintf("%q is not a duration", text), `use a number with a unit, such as "300ms", "3s" or "1m30s"`)
		return nil
	}
	return &d
}

func (o *object) number(key string) (json.Number, bool) {
	v, _ := o.lookup(key)
	n, ok := v.(json.Number)
	return n, ok
}

// list returns the items of an array and checks that there are at least so many.
func (o *object) list(key string, least int) []any {
	v, ok := o.lookup(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		o.wrongType(key, "array", v)
		return nil
	}
	if len(list) < least {
		o.violation(key, "should have at least "+count(least, "item", "items"), "add one; an optional key may be left out")
	}
	return list
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// texts reads an array of strings and, if any are allowed, checks them. It returns nil when an item is invalid, so that
// indexes of the result are indexes of the configuration.
func (o *object) texts(key string, least int, allowed ...string) []string {
	var texts []string
	fit := true
	for i, v := range o.list(key, least) {
		text, ok := o.asText(v)
		switch {
		case !ok:
			o.wrongType(indexed(key, i), "string", v)
			fit = false
		case len(allowed) > 0 && !slices.Contains(allowed, text):
			o.violation(indexed(key, i), notOneOf(text, allowed), suggestion(text, allowed))
			fit = false
		}
		texts = append(texts, text)
	}
	if !fit {
		return nil
	}
	return texts
}

func (o *object) requiredTexts(key string, least int, allowed ...string) []string {
	o.required(key)
	return o.texts(key, least, allowed...)
}

// textMap reads an object with string values.
func (o *object) textMap(key string) map[string]string {
	child := o.object(key)
	if child == nil {
		return nil
	}
	texts := make(map[string]string, len(child.fields))
	for _, k := range slices.Sorted(maps.Keys(child.fields)) {
		text, ok := child.asText(child.fields[k])
		if !ok {
			child.wrongType(k, "string", child.fields[k])
		}
		if isBoolean(k) {
			o.p.warn(joined(child.path, k), "a key is %q: %s", k, quoteBooleans)
		}
		texts[k] = text
	}
	return texts
}

// object returns the object at a key, or nil. The caller closes it.
func (o *object) object(key string) *object {
	v, ok := o.lookup(key)
	if !ok {
		return nil
	}
	return o.child(key, v)
}

func (o *object) child(key string, v any) *object {
	fields, ok := v.(map[string]any)
	if !ok {
		o.wrongType(key, "object", v)
		return nil
	}
	return &object{p: o.p, path: joined(o.path, key), fields: fields, binding: o.binding, lenient: o.lenient}
}

// objects returns the objects in an array. Items of another type are reported and nil in the result, so that indexes of
// the result are indexes of the configuration.
func (o *object) objects(key string, least int) []*object {
	list := o.list(key, least)
	objects := make([]*object, len(list))
	for i, v := range list {
		objects[i] = o.child(indexed(key, i), v)
	}
	return objects
}

// parseEach appends what parse makes of each object in an array. An item of another type becomes a zero value, so that indexes are those of
// the configuration.
func parseEach[T any](o *object, key string, least int, into *[]T, parse func(*object) T) {
	for i, item := range o.objects(key, least) {
		*into = append(*into, *new(T))
		if item != nil {
			(*into)[i] = parse(item)
		}
	}
}

// close reports unknown keys.
func (o *object) close() {
	if o.lenient {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(o.fields)) {
		if slices.Contains(o.known, key) || slices.Contains(o.p.document.ignored, key) {
			continue
		}
		hint := "remove it; known here: " + o.knownKeys()
		if near := spelling.Nearest(key, o.known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		if other := o.otherName(key); other != "" {
			hint = other
		}
		if isBoolean(key) {
			hint = quoteBooleans
		}
		o.violation(key, "is an unknown key", hint)
	}
}

// otherName is the hint for a key that users know from the Kubernetes API or from other bindings, or write without the one around it.
func (o *object) otherName(key string) string {
	knows := func(name string) bool { return slices.Contains(o.known, name) }
	switch {
	case key == "namespaceSelector" && knows("namespace"):
		if names, ok := o.fields[key].(map[string]any); ok && names["matchNames"] != nil {
			return "its name here is namespace: {nameSelector: …}"
		}
		return "its name here is namespace: {labelSelector: …}"
	case key == "objectSelector" && knows("labelSelector"):
		return "its name here is labelSelector"
	case knows("matchLabels") && knows("matchExpressions"):
		if text, ok := o.asText(o.fields[key]); ok {
			return fmt.Sprintf("write {matchLabels: {%s: %s}}", key, text)
		}
	}
	return ""
}

func (o *object) knownKeys() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(o.known))), ", ")
}

// isBoolean reports whether a key is what YAML reads a bare y, n, on, … as.
func isBoolean(key string) bool { return key == "true" || key == "false" }
