package testfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Expect is what a case expects.
type Expect struct {
	// Exact compares all fields of objects, Subset permits further operations, metrics and calls.
	Exact, Subset bool
	// Keys are the expectations in their order.
	Keys []Expected
	// empty is the line of expectations without a value; 0 if they have one, or are in the braces of a case.
	empty int
	// noRun is the text "runs: 0", before the key at the place, for an update; 0 is no place.
	noRun struct {
		line, column int
		text         string
	}
}

// expectNoRun notes where an update inserts a text: before a key.
func (e *Expect) expectNoRun(key *yaml.Node, text string, flow bool) {
	e.noRun.line, e.noRun.column, e.noRun.text = key.Line, key.Column, text+", "
	if !flow {
		e.noRun.text = text + "\n" + strings.Repeat(" ", key.Column-1)
	}
}

// Expected is one expectation.
type Expected struct {
	Key  string
	Line int
	// Value is a tree of JSON.
	Value any
}

// Has reports whether there is an expectation of a key.
func (e *Expect) Has(key string) bool {
	return slices.ContainsFunc(e.Keys, func(x Expected) bool { return x.Key == key })
}

// expect reads expectations that fit the schema.
func (r *reader) expect(key, n *yaml.Node, inFlow bool) Expect {
	var e Expect
	if key != nil && len(n.Content) == 0 && n.Anchor == "" && !inFlow {
		e.empty = key.Line
	} else if key != nil && len(n.Content) > 0 {
		e.expectNoRun(n.Content[0], "runs: 0", n.Style&yaml.FlowStyle != 0)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		node := resolve(n.Content[i+1])
		x := Expected{Key: n.Content[i].Value, Line: node.Line}
		x.Value, _ = value(node) // it was read before
		switch v := x.Value.(type) {
		case bool:
			e.Exact, e.Subset = e.Exact || x.Key == "exact" && v, e.Subset || x.Key == "subset" && v
			continue
		case float64: // that is whole
			x.Value = int64(v)
		case string:
			if x.Key != "error" {
				x.Value = []any{v}
			}
		case []any:
			if x.Key == "metrics" {
				x.Value = inFull(v)
			}
		}
		e.Keys = append(e.Keys, x)
	}
	return e
}

// inFull returns metrics with action and value in place of the short forms set and add.
func inFull(metrics []any) []any {
	full := []any{}
	for _, m := range metrics {
		metric := maps.Clone(m.(map[string]any))
		for _, action := range []string{"set", "add"} {
			if value := metric[action]; value != nil {
				metric["action"], metric["value"] = action, value
			}
			delete(metric, action)
		}
		full = append(full, metric)
	}
	return full
}

// Actual is what came of a case.
type Actual struct {
	// Exit and Error are how the last run ended.
	Exit  int
	Error string
	// Values are trees of JSON by the keys of other expectations; answers are nil without such a request.
	Values map[string]any
	// Failed is the error of a run, other than the last one, that had no further attempt.
	Failed string
	// Object returns the object of the simulated cluster for an expected one, by kind, namespace and name; or nil, and why there is none,
	// with the full name and similar ones.
	Object func(expected map[string]any) (object any, missing string)
	// Present reports whether the object of a reference exists, Known whether it existed at some time of the case, or a run deleted it.
	Present, Known func(ref string) bool
}

// Failure is an expectation that is not met, or an error in a file.
type Failure struct {
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Diff has the lines of both sides, with "-" before what is expected and "+" before what is there; it may be empty.
	Diff []string `json:"diff,omitempty"`
	// Code names the kind of failure, whatever its message.
	Code string `json:"code,omitempty"`
	// Path is the place of an expectation in its case, such as expect.after; Expected and Actual are its values, for other programs.
	Path     string `json:"path,omitempty"`
	Expected any    `json:"expected,omitempty"`
	Actual   any    `json:"actual,omitempty"`
}

// Compare returns the failures of a case.
func (c *Case) Compare(a *Actual) (failures []Failure) {
	e := &c.Expect
	fail := func(message string) { failures = append(failures, Failure{Line: c.Line, Message: message}) }
	if a.Values["runs"] == int64(0) && !e.Has("runs") {
		failures = append(failures, Failure{Line: c.Line, Message: "nothing caused a run, so the case tests nothing",
			Hint: "if that is expected, expect runs: 0"})
	}
	if c.Deletes() {
		for _, unknown := range c.Unknown(a) {
			failures = append(failures, Failure{Line: c.Line, Message: unknown, Path: "expect.absent",
				Hint: "add it to objects, or let an event or a run before the deletion create it"})
		}
	}
	if a.Failed != "" {
		fail("a run failed and had no further attempt: " + a.Failed)
	}
	exit := 0
	for _, x := range e.Keys {
		if x.Key == "exit" {
			exit = int(x.Value.(int64))
		}
	}
	if a.Error != "" && exit == 0 && !e.Has("error") {
		fail("the run failed: " + a.Error)
	}
	for _, x := range e.Keys {
		if x.Key == "exit" && a.Error != "" && exit == 0 && !e.Has("error") && a.Exit != 0 {
			continue // reported already, with its reason
		}
		failures = append(failures, e.compare(x, a)...)
	}
	return failures
}

// Delivers reports whether the case has an event of a type.
func (c *Case) Delivers(typ string) bool {
	return slices.ContainsFunc(c.Events, func(ev Event) bool { return ev.Type == typ })
}

// Deletes reports whether the case deletes an object.
func (c *Case) Deletes() bool { return c.Delivers("Deleted") || c.Delivers("Deleting") }

// Requeues reports whether the last run requested a requeue.
func (a *Actual) Requeues() bool {
	file, _ := a.Values["result"].(map[string]any)
	return file["requeueAfter"] != nil || file["requeue"] != nil
}

// Unknown returns a text for each object that is expected to be absent and has never existed. Such an expectation is met by a hook that
// does nothing.
func (c *Case) Unknown(a *Actual) (texts []string) {
	for _, x := range c.Expect.Keys {
		if refs, _ := x.Value.([]any); x.Key == "absent" {
			for _, ref := range refs {
				if !a.Known(ref.(string)) {
					texts = append(texts, "absent: "+ref.(string)+" has never existed in this case")
				}
			}
		}
	}
	return texts
}

// compare returns the failures of one expectation.
func (e *Expect) compare(x Expected, a *Actual) (failures []Failure) {
	actual, expected := a.of(x), x.Value
	fail := func(message string, diff ...string) {
		failures = append(failures, Failure{Line: x.Line, Message: message, Diff: diff, Path: "expect." + x.Key, Expected: expected,
			Actual: actual})
	}
	switch x.Key {
	case "error":
		if a.Error == "" {
			fail("the run succeeded, it should have failed")
		} else if !matches(expected.(string), a.Error) {
			fail("error is different", diff(strings.Split(expected.(string), "\n"), strings.Split(a.Error, "\n"))...)
		}
	case "stdout", "stderr":
		for _, pattern := range expected.([]any) {
			if lines := actual.([]any); !slices.ContainsFunc(lines, func(l any) bool { return matches(pattern.(string), l.(string)) }) {
				fail("no line of "+x.Key+" is "+pattern.(string), printed(lines)...)
			}
		}
	case "absent":
		for _, ref := range expected.([]any) {
			if a.Present(ref.(string)) {
				fail(ref.(string) + " exists, it should not")
			}
		}
	default:
		if x.Key == "after" {
			expected, actual, failures = a.after(x)
		}
		m := e.matcher(x.Key)
		if m.match(expected, actual) {
			break
		}
		fail(x.Key+" is different", diff(render(expected), render(m.reduce(expected, actual, "")))...)
	}
	return failures
}

// after splits what after expects: the objects that exist, and a failure for each other one.
func (a *Actual) after(x Expected) (wanted, there []any, failures []Failure) {
	wanted, there = []any{}, []any{}
	for i, object := range x.Value.([]any) {
		is, missing := a.Object(object.(map[string]any))
		if is == nil {
			failures = append(failures, Failure{Line: x.Line, Message: missing, Path: fmt.Sprintf("expect.after[%d]", i), Expected: object})
			continue
		}
		wanted, there = append(wanted, object), append(there, is)
	}
	return wanted, there, failures
}

func printed(lines []any) []string {
	const most = 20
	if len(lines) == 0 {
		return []string{"  (it is empty)"}
	}
	var shown []string
	for _, l := range lines[max(0, len(lines)-most):] {
		shown = append(shown, "+ "+l.(string))
	}
	return shown
}

// of returns the actual value of a key, except for after.
func (a *Actual) of(x Expected) any {
	switch x.Key {
	case "exit":
		return int64(a.Exit)
	case "error":
		return a.Error
	case "http":
		return a.http(x.Value)
	}
	return a.Values[x.Key]
}

// http returns the response. A body that is expected as a tree is parsed.
func (a *Actual) http(expected any) any {
	want, _ := expected.(map[string]any)
	response, _ := a.Values["http"].(map[string]any)
	text, isText := response["body"].(string)
	if _, asText := want["body"].(string); asText || want["body"] == nil || !isText {
		return a.Values["http"]
	}
	response = maps.Clone(response)
	if tree, err := Tree([]byte(text)); err == nil {
		response["body"] = tree
	}
	return response
}
