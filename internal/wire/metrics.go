package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

func badMetrics(v *violations) error {
	text := "got bad metrics: " + v.first[0].String()
	if n := v.count(); n > 1 {
		text = v.bulleted(fmt.Sprintf("got bad metrics: %d problems:", n))
	}
	return errors.New(text)
}

// ParseMetrics reads the metrics file of a run. With an error, nothing of the file may be used. A warning
// reports an operation that is dropped.
func ParseMetrics(file []byte) ([]effect.Metric, []Warning, error) {
	p := &metricsParser{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(file), lenientJSON)
	for n := 1; ; n++ {
		if p.violations.count() >= maxReported && len(p.metrics)+p.dropped == 0 && dec.SkipValue() == nil {
			p.violations.others++ // nothing before was valid, so the rest is counted, and not checked
			continue
		}
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
	if p.violations.count() > 0 {
		return nil, nil, badMetrics(&p.violations)
	}
	if more := p.dropped - maxReported; more > 0 {
		p.warnings = append(p.warnings, Warning{Problem: fmt.Sprintf("%d more operations are dropped", more)})
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
	violations violations
	// warnings are the first maxReported of dropped operations.
	warnings []Warning
	dropped  int
}

// metricOperation parses one object of the file.
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
	o.p.violations.add(Violation{Path: path, Problem: problem, Hint: hint})
}

// drop drops the operation with a warning. As upstream, it does not fail the run.
func (o *metricOperation) drop(format string, args ...any) {
	if o.p.dropped++; o.p.dropped <= maxReported {
		o.p.warnings = append(o.p.warnings, Warning{o.String(), "the operation is dropped, " + fmt.Sprintf(format, args...)})
	}
}

func (o *metricOperation) notJSON(file []byte, offset int64, err error) {
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		offset, err = syntax.ByteOffset, syntax.Err
	}
	line := 1 + bytes.Count(file[:min(int(offset), len(file))], []byte("\n"))
	o.violation("", fmt.Sprintf("cannot be read as JSON: %v in line %d", err, line),
		"write one object for each operation; JSON has no comments, no NaN and no infinity")
}

// metricForm is an operation as hooks write it. Null is an empty value: jq returns it for a label that an object does not have.
type metricForm struct {
	Name, Action, Group string
	Value, Set, Add     *float64
	Buckets             []*float64
	Labels              map[string]string
}

// read parses one operation and adds it to the metrics.
func (o *metricOperation) read(raw jsontext.Value) {
	var f metricForm
	if kind := jq.TypeOfText(raw); kind != "object" && kind != "null" {
		o.violation("", "must be an object, not "+withArticle(kind), "write the operations one after the other, not as a list")
		return
	}
	err := json.Unmarshal(raw, &f, lenientJSON, jsontext.AllowInvalidUTF8(false))
	if errors.As(err, new(*jsontext.SyntacticError)) && textsAreValid(raw) { // the mistake is in an unknown key, which is ignored
		f = metricForm{}
		err = json.Unmarshal(raw, &f, lenientJSON)
	}
	if o.name = f.Name; err != nil {
		o.mistyped(err)
		return
	}
	m := effect.Metric{Name: f.Name, Group: f.Group, Buckets: o.buckets(f.Buckets), Labels: f.Labels}
	action, field, value := f.action()
	if m.Action = metricActions[action]; m.Action == 0 {
		o.dropAction(&f)
		return
	}
	o.check(&m, field, value)
	if o.p.violations.count() == 0 && o.usable(&m) {
		o.p.metrics = append(o.p.metrics, m)
	}
}

// textsAreValid reports whether the known keys of an operation have texts in UTF-8 only.
func textsAreValid(raw []byte) bool {
	w := jq.Walk(raw)
	w.Enter('{')
	for name := w.Member(); name != nil; name = w.Member() {
		value := jsontext.Value(w.Value())
		known := slices.Contains([]string{"name", "action", "group", "labels"}, strings.ToLower(string(name[1:len(name)-1])))
		if known && !value.IsValid(jsontext.AllowDuplicateNames(true)) {
			return false
		}
	}
	return w.Err() == nil
}

// buckets rejects null: a bound of 0 that the hook did not write would stay in the histogram.
func (o *metricOperation) buckets(bounds []*float64) (all []float64) {
	if bounds != nil {
		all = []float64{}
	}
	for i, bound := range bounds {
		if bound == nil {
			o.violation(fmt.Sprintf("buckets.%d", i), `must be of type number: "null"`, "")
			continue
		}
		all = append(all, *bound)
	}
	return all
}

// mistyped reports a value of another type, at which the decoder ends.
func (o *metricOperation) mistyped(err error) {
	at := func(p jsontext.Pointer) string { return cut(strings.Join(slices.Collect(p.Tokens()), "."), 120) }
	if broken := (*jsontext.SyntacticError)(nil); errors.As(err, &broken) {
		o.violation(at(broken.JSONPointer), "is not valid UTF-8", "") // all else has been checked
		return
	}
	bad := (*json.SemanticError)(nil)
	if !errors.As(err, &bad) || bad.GoType == nil {
		o.violation("", "cannot be read: "+err.Error(), "")
		return
	}
	field := at(bad.JSONPointer)
	got, want, hint := jq.TypeOfText([]byte{byte(bad.JSONKind)}), goTypes[bad.GoType.Kind()], ""
	switch {
	case want == got:
		o.violation(field, "is too large", "")
		return
	case want == "string" && (got == "number" || got == "boolean"):
		hint = "write it in quotes"
	case want == "number" && got == "string":
		hint = "write it without quotes"
	}
	o.violation(field, fmt.Sprintf("must be of type %s: %q", want, got), hint)
}

var goTypes = map[reflect.Kind]string{reflect.String: "string", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object"}

var metricActions = map[string]effect.MetricAction{
	"add": effect.Add, "set": effect.Set, "observe": effect.Observe, "expire": effect.Expire,
}

// action returns the action, its value and the field of the value. A single shortcut takes precedence over the explicit form; two
// shortcuts are invalid.
func (f *metricForm) action() (action, field string, value *float64) {
	switch {
	case f.Set != nil && f.Add == nil:
		return "set", "set", f.Set
	case f.Add != nil && f.Set == nil:
		return "add", "add", f.Add
	}
	return f.Action, "value", f.Value
}

func (o *metricOperation) dropAction(f *metricForm) {
	switch {
	case f.Action != "":
		o.drop("its action %.100q is unknown: use add, set, observe or expire", f.Action)
	case f.Set != nil && f.Add != nil:
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
