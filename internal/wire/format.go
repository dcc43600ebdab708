package wire

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Forms are what hooks write, as values that can be written again: Parse of the JSON of a form is the value that it was made of.

// Metric is the form of an operation on the hook's metrics.
type Metric struct {
	Action  string            `json:"action"`
	Name    string            `json:"name,omitempty"`
	Value   float64           `json:"value"`
	Labels  map[string]string `json:"labels,omitempty"`
	Buckets []float64         `json:"buckets,omitzero"`
	Group   string            `json:"group,omitempty"`
}

// FormatMetric returns the form of a metric.
func FormatMetric(m effect.Metric) Metric {
	return Metric{m.Action.String(), m.Name, m.Value, m.Labels, m.Buckets, m.Group}
}

// Result is the form of a result file.
type Result struct {
	RequeueAfter  string    `json:"requeueAfter,omitempty"`
	Requeue       []Requeue `json:"requeue,omitempty"`
	KeepFinalizer bool      `json:"keepFinalizer,omitempty"`
	RetryAfter    string    `json:"retryAfter,omitempty"`
	GiveUp        string    `json:"giveUp,omitempty"`
	Message       string    `json:"message,omitempty"`
}

// Requeue requests another run for one object.
type Requeue struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	After     string `json:"after"`
}

// FormatResult returns the form of a result file.
func FormatResult(r effect.Result) *Result {
	f := &Result{KeepFinalizer: r.KeepFinalizer, GiveUp: r.GiveUp, Message: r.Message}
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

// Admission is the form of an answer to an admission review.
type Admission struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Patch is what hooks write in base64: the JSON patch, or a text that is no JSON.
	Patch json.RawMessage `json:"patch,omitempty"`
}

// FormatAdmission returns the form of an answer. Its patch aliases that of the answer.
func FormatAdmission(a effect.AdmissionAnswer) *Admission {
	f := &Admission{Allowed: a.Allowed, Message: a.Message, Warnings: a.Warnings}
	switch {
	case json.Valid(a.Patch):
		f.Patch = a.Patch
	case len(a.Patch) > 0:
		f.Patch, _ = json.Marshal(string(a.Patch)) // texts are always JSON
	}
	return f
}

// Conversion is the form of an answer to a conversion review.
type Conversion struct {
	Objects []json.RawMessage `json:"convertedObjects,omitempty"`
	Failure string            `json:"failedMessage,omitempty"`
}

// FormatConversion returns the form of an answer.
func FormatConversion(a effect.ConversionAnswer) *Conversion {
	return new(Conversion(a))
}

// HTTP is the form of an answer to an HTTP request. A body that is no text is in BodyBase64.
type HTTP struct {
	Status     int                 `json:"status"`
	Headers    map[string][]string `json:"headers,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
}

// FormatHTTP returns the form of an answer.
func FormatHTTP(a effect.HTTPAnswer) *HTTP {
	f := &HTTP{Status: a.Status, Headers: a.Headers}
	if utf8.Valid(a.Body) {
		f.Body = string(a.Body)
	} else {
		f.BodyBase64 = a.Body
	}
	return f
}
