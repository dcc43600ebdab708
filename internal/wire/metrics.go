package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// maxReported bounds errors and warnings: a hook can repeat one mistake thousands of times.
const maxReported = 50

func badMetrics(violations []Violation) *FileError {
	n := len(violations)
	text := "got bad metrics: " + violations[0].String()
	if n > 1 {
		text = bulleted(fmt.Sprintf("got bad metrics: %d problems:", n), violations[:min(n, maxReported)])
	}
	if n > maxReported {
		text += fmt.Sprintf("\n  … and %d more", n-maxReported)
	}
	return &FileError{violations, text}
}

// ParseMetrics reads the metrics file of a run. An error is a *FileError, and nothing of the file may be used. A warning
// reports an operation that is dropped.
func ParseMetrics(file []byte) ([]effect.Metric, []Warning, error) {
	p := &metricsParser{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(file), lenientJSON)
	for n := 1; ; n++ {
		raw, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			break
		}
		o := &metricOperation{p: p, place: n}
		if err != nil {
			o.notJSON(file, dec.InputOffset(), err) // the start of the next one is unknown
			break
		}
		o.read(raw)
	}
	if len(p.violations) > 0 {
		return nil, nil, badMetrics(p.violations)
	}
	if more := len(p.warnings) - maxReported; more > 0 {
		p.warnings = append(p.warnings[:maxReported], Warning{Problem: fmt.Sprintf("%d more operations are dropped", more)})
	}
	return p.metrics, p.warnings, nil
}

// lenientJSON accepts what upstream accepts: keys in any case, duplicate keys (the last one counts), and invalid UTF-8, so that
// it can be reported with its place.
var lenientJSON = jsontext.Options(json.JoinOptions(
	json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
))

type metricsParser struct {
	metrics    []effect.Metric
	violations []Violation
	warnings   []Warning
}

// metricOperation parses one object of the file. Its methods decode fields; an invalid value becomes a violation and
// returns a value that causes no further ones.
type metricOperation struct {
	p *metricsParser
	// place counts from 1.
	place int
	// name is the metric's name, if known, for messages.
	name string
}

func (o *metricOperation) String() string {
	if o.name == "" {
		return fmt.Sprintf("operation %d", o.place)
	}
	return fmt.Sprintf("operation %d (%.100q)", o.place, o.name)
}

func (o *metricOperation) violation(field, problem, hint string) {
	path := o.String()
	if field != "" {
		path += ", " + field
	}
	o.p.violations = append(o.p.violations, Violation{Path: path, Problem: problem, Hint: hint})
}

// drop drops the operation with a warning. As upstream, it does not fail the run.
func (o *metricOperation) drop(format string, args ...any) {
	o.p.warnings = append(o.p.warnings, Warning{o.String(), "the operation is dropped, " + fmt.Sprintf(format, args...)})
}

func (o *metricOperation) notJSON(file []byte, offset int64, err error) {
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		offset, err = syntax.ByteOffset, syntax.Err
	}
	line := 1 + bytes.Count(file[:min(int(offset), len(file))], []byte("\n"))
	o.violation("", fmt.Sprintf("cannot be read as JSON: %v in line %d", err, line),
		"write one object for each operation; JSON has no comments, no NaN and no infinity")
}

// metricFields are the keys of an operation, undecoded, so that each is reported separately.
type metricFields struct {
	Name, Action, Value, Buckets, Labels, Group, Set, Add jsontext.Value
}

// read parses one operation and adds it to the metrics.
func (o *metricOperation) read(raw jsontext.Value) {
	var f metricFields
	if kind := jq.TypeOfText(raw); kind != "object" && kind != "null" {
		o.violation("", "must be an object, not "+withArticle(kind), "write the operations one after the other, not as a list")
		return
	}
	if err := json.Unmarshal(raw, &f, lenientJSON); err != nil {
		o.violation("", "cannot be read: "+err.Error(), "")
		return
	}
	before := len(o.p.violations)
	o.name = o.text("name", f.Name)
	m := effect.Metric{
		Name: o.name, Group: o.text("group", f.Group),
		Buckets: o.numbers("buckets", f.Buckets), Labels: o.labels(f.Labels),
	}
	action, field, value := o.action(&f)
	if m.Action = metricActions[action]; m.Action == 0 {
		o.dropAction(action, &f)
		return
	}
	o.check(&m, field, value)
	if len(o.p.violations) == before && o.usable(&m) {
		o.p.metrics = append(o.p.metrics, m)
	}
}

var metricActions = map[string]effect.MetricAction{
	"add": effect.Add, "set": effect.Set, "observe": effect.Observe, "expire": effect.Expire,
}

// action returns the action, its value and the field of the value. A single shortcut takes precedence over the explicit form; two
// shortcuts are invalid.
func (o *metricOperation) action(f *metricFields) (action, field string, value *float64) {
	action, value = o.text("action", f.Action), o.number("value", f.Value)
	set, add := o.number("set", f.Set), o.number("add", f.Add)
	switch {
	case set != nil && add == nil:
		return "set", "set", set
	case add != nil && set == nil:
		return "add", "add", add
	}
	return action, "value", value
}

func (o *metricOperation) dropAction(action string, f *metricFields) {
	switch {
	case action != "":
		o.drop("its action %.100q is unknown: use add, set, observe or expire", action)
	case given(f.Set) && given(f.Add):
		o.drop("it has both set and add: keep one of them")
	default:
		o.drop("it has no action: use add, set, observe or expire")
	}
}

// check sets the value of m, clears fields without meaning and reports what the action does not allow.
func (o *metricOperation) check(m *effect.Metric, field string, value *float64) {
	if m.Action == effect.Expire {
		*m = effect.Metric{Action: effect.Expire, Group: m.Group}
		return
	}
	if m.Name == "" {
		o.violation("name", "is required", "")
	}
	switch {
	case value == nil:
		o.violation("value", fmt.Sprintf("is required for %q", m.Action), "give it a number")
	case m.Action == effect.Add && *value < 0:
		o.violation(field, fmt.Sprintf("is %v, but a counter can only grow", *value), `use "set" for what goes up and down`)
	default:
		m.Value = *value
	}
	if m.Action == effect.Observe {
		o.checkHistogram(m)
	}
	o.checkSizes(m)
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if !labelName.MatchString(name) || strings.HasPrefix(name, "__") {
			o.violation("labels", fmt.Sprintf("must not have the name %.100q", name),
				`use letters, digits and "_"; begin with a letter or one "_"`)
		}
	}
}

// Larger values are mistakes: every scrape transfers them for as long as the series exists.
const (
	maxNameBytes  = 1 << 10
	maxValueBytes = 64 << 10
	maxLabels     = 256
	maxBuckets    = 1000
)

// checkSizes rejects oversized names and values, such as the contents of a file.
func (o *metricOperation) checkSizes(m *effect.Metric) {
	long := func(field string, got, most int) {
		if got > most {
			o.violation(field, fmt.Sprintf("is %d bytes long, more than %d", got, most),
				"write a short word; long text belongs in an object or the log")
		}
	}
	long("name", len(m.Name), maxNameBytes)
	long("group", len(m.Group), maxValueBytes)
	if len(m.Labels) > maxLabels {
		o.violation("labels", fmt.Sprintf("are %d, more than %d", len(m.Labels), maxLabels), "use some values of few labels")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		long("a name in labels", len(name), maxNameBytes)
		long(fmt.Sprintf("labels.%.100s", name), len(m.Labels[name]), maxValueBytes)
	}
	if len(m.Buckets) > maxBuckets {
		o.violation("buckets", fmt.Sprintf("are %d, more than %d", len(m.Buckets), maxBuckets), "list fewer bounds")
	}
}

func (o *metricOperation) checkHistogram(m *effect.Metric) {
	if m.Buckets == nil {
		o.violation("buckets", `is required for "observe"`, "list the upper bounds; [] stands for the usual ones")
	}
	if _, ok := m.Labels["le"]; ok {
		o.violation("labels", `must not have the name "le"`, "it is reserved for histograms, use another one")
	}
}

// usable reports whether the metric's name is valid. As upstream, an invalid one is dropped and does not fail the run.
func (o *metricOperation) usable(m *effect.Metric) bool {
	if m.Action == effect.Expire || metricName.MatchString(m.Name) {
		return true
	}
	o.drop(`its name is not valid: use letters, digits, "_" and ":"; do not begin with a digit`)
	return false
}

// Names that every version of Prometheus accepts.
var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// given reports whether a key is present. Null counts as absent.
func given(raw jsontext.Value) bool { return len(raw) > 0 && raw.Kind() != 'n' }

func (o *metricOperation) wrongType(field, want string, raw jsontext.Value) {
	hint := ""
	switch got := jq.TypeOfText(raw); {
	case want == "string" && (got == "number" || got == "boolean"):
		hint = "write it in quotes"
	case want == "number" && got == "string":
		hint = "write it without quotes"
	}
	o.violation(field, fmt.Sprintf("must be of type %s: %q", want, jq.TypeOfText(raw)), hint)
}

func (o *metricOperation) text(field string, raw jsontext.Value) string {
	if !given(raw) {
		return ""
	}
	if raw.Kind() != '"' {
		o.wrongType(field, "string", raw)
		return string(raw)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		o.violation(field, fmt.Sprintf("is %.100q, which is not valid UTF-8", text), "")
	}
	return string(text)
}

// number returns nil for an absent key.
func (o *metricOperation) number(field string, raw jsontext.Value) *float64 {
	if !given(raw) {
		return nil
	}
	if raw.Kind() != '0' {
		o.wrongType(field, "number", raw)
		return new(float64)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		o.violation(field, fmt.Sprintf("is %.100s, which is too large", raw), "")
	}
	return &f
}

func (o *metricOperation) numbers(field string, raw jsontext.Value) []float64 {
	if !given(raw) {
		return nil
	}
	var items []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &items, lenientJSON) != nil {
		o.wrongType(field, "array", raw)
		return []float64{}
	}
	numbers := make([]float64, 0, len(items))
	for i, item := range items {
		if n := o.number(indexed(field, i), item); n != nil {
			numbers = append(numbers, *n)
		} else if !given(item) {
			o.wrongType(indexed(field, i), "number", item)
		}
	}
	return numbers
}

// labels reads label values. Null is an empty value: jq returns it for a label that an object does not have.
func (o *metricOperation) labels(raw jsontext.Value) map[string]string {
	if !given(raw) {
		return nil
	}
	var items map[string]jsontext.Value
	if raw.Kind() != '{' || json.Unmarshal(raw, &items, lenientJSON) != nil {
		o.wrongType("labels", "object", raw)
		return nil
	}
	labels := make(map[string]string, len(items))
	for _, name := range slices.Sorted(maps.Keys(items)) {
		labels[name] = o.text("labels."+name, items[name])
	}
	return labels
}
