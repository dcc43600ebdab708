package recording

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Metric is an operation on the hook's metrics in JSON.
type Metric struct {
	Action  string            `json:"action"`
	Name    string            `json:"name,omitempty"`
	Value   float64           `json:"value"`
	Labels  map[string]string `json:"labels,omitempty"`
	Buckets []float64         `json:"buckets,omitempty"`
	Group   string            `json:"group,omitempty"`
}

// MetricOf returns the form of a metric.
func MetricOf(m effect.Metric) Metric {
	return Metric{m.Action.String(), m.Name, m.Value, m.Labels, m.Buckets, m.Group}
}

// File is the result file, with durations as text.
type File struct {
	RequeueAfter string    `json:"requeueAfter,omitempty"`
	Requeue      []Requeue `json:"requeue,omitempty"`
	// KeepFinalizer keeps the finalizer of objects that are being deleted.
	KeepFinalizer bool   `json:"keepFinalizer,omitempty"`
	RetryAfter    string `json:"retryAfter,omitempty"`
	GiveUp        string `json:"giveUp,omitempty"`
	Message       string `json:"message,omitempty"`
}

// Requeue requests another run for one object.
type Requeue struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	After     string `json:"after"`
}

// FileOf returns the form of a result file.
func FileOf(r effect.Result) *File {
	f := &File{KeepFinalizer: r.KeepFinalizer, GiveUp: r.GiveUp, Message: r.Message}
	if r.RequeueAfter > 0 {
		f.RequeueAfter = r.RequeueAfter.String()
	}
	for _, q := range r.Requeue {
		f.Requeue = append(f.Requeue, Requeue{q.Namespace, q.Name, q.After.String()})
	}
	if r.RetryAfter != nil {
		f.RetryAfter = r.RetryAfter.String()
	}
	return f
}

// Admission is the answer to an admission review.
type Admission struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Patch is the JSON patch, as JSON if it is that.
	Patch any `json:"patch,omitempty"`
}

// AdmissionOf returns the form of an answer.
func AdmissionOf(a effect.AdmissionAnswer) *Admission {
	f := &Admission{Allowed: a.Allowed, Message: a.Message, Warnings: a.Warnings}
	switch {
	case json.Valid(a.Patch):
		f.Patch = json.RawMessage(a.Patch)
	case len(a.Patch) > 0:
		f.Patch = string(a.Patch)
	}
	return f
}

// Conversion is the answer to a conversion review.
type Conversion struct {
	Objects []json.RawMessage `json:"convertedObjects,omitempty"`
	Failure string            `json:"failedMessage,omitempty"`
}

// HTTP is the answer to an HTTP request. A body that is no text is in BodyBase64.
type HTTP struct {
	Status     int                 `json:"status"`
	Headers    map[string][]string `json:"headers,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
}

// HTTPOf returns the form of an answer.
func HTTPOf(a effect.HTTPAnswer) *HTTP {
	f := &HTTP{Status: a.Status, Headers: a.Headers}
	if utf8.Valid(a.Body) {
		f.Body = string(a.Body)
	} else {
		f.BodyBase64 = a.Body
	}
	return f
}

// outcome returns what the files of a run contain, as far as they are valid: the error of the run names what is not. Of a failed hook only the
// operations are kept that are applied nevertheless; the others are unsent.
func outcome(run *Run, filters *jq.Compiler) (o Outcome, unsent []any, valid bool) {
	out := run.Outputs
	patches, err := wire.ParsePatches(out.Patch, filters)
	for i := range patches {
		if tree := treeOf(wire.FormatPatch(&patches[i])); !run.HookFailed || patches[i].IgnoreHookError {
			o.Operations = append(o.Operations, tree)
		} else {
			unsent = append(unsent, tree)
		}
	}
	valid = err == nil
	if out.Result != nil {
		o.File = treeOf(FileOf(run.File))
	}
	if run.HookFailed {
		return o, unsent, valid
	}
	if metrics, _, err := wire.ParseMetrics(out.Metrics); err == nil {
		for _, m := range metrics {
			o.Metrics = append(o.Metrics, treeOf(MetricOf(m)))
		}
	}
	if answer, err := wire.ParseAdmission(out.Admission); err == nil && out.Admission != nil {
		o.Admission = treeOf(AdmissionOf(answer))
	}
	if answer, err := wire.ParseConversion(out.Conversion); err == nil && out.Conversion != nil {
		o.Conversion = treeOf(&Conversion{answer.Objects, answer.Failure})
	}
	if answer, err := wire.ParseHTTP(out.HTTP); err == nil && out.HTTP != nil {
		o.HTTP = treeOf(HTTPOf(answer))
	}
	return o, unsent, valid
}

// removeTexts removes every text that a hook may have made of what it has read.
func (r *Result) removeTexts() {
	r.Error, r.Output = "", nil
	remove := func(tree any, keys ...string) {
		if m, ok := tree.(map[string]any); ok {
			for _, key := range keys {
				delete(m, key)
			}
		}
	}
	for _, o := range r.Operations {
		remove(o, "message", "note", "reason", "action")
	}
	for _, m := range r.Metrics {
		remove(m, "labels", "group")
	}
	remove(r.Admission, "message", "warnings")
	remove(r.Conversion, "failedMessage")
	remove(r.HTTP, "headers", "body", "bodyBase64")
	remove(r.File, "message", "giveUp")
}

// treeOf returns a value as a tree of JSON. What it is called with has no value that JSON lacks.
func treeOf(v any) any {
	text, err := marshal(v)
	if err != nil {
		return nil
	}
	var tree any
	if unmarshal(text, &tree) != nil {
		return nil
	}
	return tree
}

// unmarshal keeps numbers as they are written.
func unmarshal(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// ResultOf returns the result of a run that is not recorded, to compare it.
func ResultOf(exit string, operations []wire.Operation, metrics []Metric, admission *Admission, conversion *Conversion, http *HTTP, file *File) Result {
	r := Result{Exit: exit}
	for _, o := range operations {
		r.Operations = append(r.Operations, treeOf(o))
	}
	for _, m := range metrics {
		r.Metrics = append(r.Metrics, treeOf(m))
	}
	r.Admission, r.Conversion, r.HTTP, r.File = treeOf(admission), treeOf(conversion), treeOf(http), treeOf(file)
	return r
}
