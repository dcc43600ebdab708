package workbench

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// TrialReport is what came of a run.
type TrialReport struct {
	Hook string `json:"hook"`
	// Contexts is the number of binding contexts.
	Contexts int `json:"contexts"`
	// Runs is the number of runs in a simulated cluster.
	Runs int `json:"runs,omitempty"`
	// Error is why the run failed; empty means that it did not.
	Error string `json:"error,omitempty"`
	// Notes are what is worth knowing and no mistake.
	Notes       []string         `json:"notes,omitempty"`
	Seconds     float64          `json:"seconds"`
	CPUSeconds  float64          `json:"cpuSeconds"`
	MaxRSSBytes int64            `json:"maxRSSBytes"`
	Output      []TrialLine      `json:"output"`
	Operations  []TrialOperation `json:"operations"`
	// Diffs are what the operations change.
	Diffs []TrialDiff `json:"diffs,omitempty"`
	// Applied reports that the operations were applied.
	Applied    bool             `json:"applied"`
	Metrics    []TrialMetric    `json:"metrics"`
	Admission  *TrialAdmission  `json:"admission,omitempty"`
	Conversion *TrialConversion `json:"conversion,omitempty"`
	HTTP       *TrialHTTP       `json:"http,omitempty"`
	Result     *TrialResult     `json:"result,omitempty"`
}

// TrialLine is a line of output.
type TrialLine struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// TrialOperation is an operation of the hook.
type TrialOperation struct {
	Operation       string          `json:"operation"`
	APIVersion      string          `json:"apiVersion,omitempty"`
	Kind            string          `json:"kind"`
	Namespace       string          `json:"namespace,omitempty"`
	Name            string          `json:"name,omitempty"`
	Subresource     string          `json:"subresource,omitempty"`
	Object          json.RawMessage `json:"object,omitempty"`
	Patch           json.RawMessage `json:"patch,omitempty"`
	JQFilter        string          `json:"jqFilter,omitempty"`
	IgnoreHookError bool            `json:"ignoreHookError,omitempty"`
	// Type and Reason are those of a Condition or an Event, Status and Message those of a Condition, the others those of an Event.
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Action  string `json:"action,omitempty"`
	Note    string `json:"note,omitempty"`
}

func trialOperation(p effect.Patch) TrialOperation {
	t := TrialOperation{
		Operation: p.Operation.String(), APIVersion: p.APIVersion, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name,
		Subresource: p.Subresource, Object: p.Object, Patch: p.Body, JQFilter: p.Filter, IgnoreHookError: p.IgnoreHookError,
	}
	if c := p.Condition; c != nil {
		t.Type, t.Status, t.Reason, t.Message = c.Type, c.Status, c.Reason, c.Message
	}
	if e := p.Event; e != nil {
		t.Type, t.Reason, t.Action, t.Note = e.Type, e.Reason, e.Action, e.Note
	}
	return t
}

// TrialMetric is an operation on the hook's metrics.
type TrialMetric struct {
	Action  string            `json:"action"`
	Name    string            `json:"name,omitempty"`
	Value   float64           `json:"value"`
	Labels  map[string]string `json:"labels,omitempty"`
	Buckets []float64         `json:"buckets,omitempty"`
	Group   string            `json:"group,omitempty"`
}

func trialMetric(m effect.Metric) TrialMetric {
	return TrialMetric{m.Action.String(), m.Name, m.Value, m.Labels, m.Buckets, m.Group}
}

// TrialResult is the result file, with durations as text.
type TrialResult struct {
	RequeueAfter string         `json:"requeueAfter,omitempty"`
	Requeue      []TrialRequeue `json:"requeue,omitempty"`
	RetryAfter   string         `json:"retryAfter,omitempty"`
	GiveUp       string         `json:"giveUp,omitempty"`
	Message      string         `json:"message,omitempty"`
}

// TrialRequeue requests another run for one object.
type TrialRequeue struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	After     string `json:"after"`
}

func trialResult(r effect.Result) *TrialResult {
	t := &TrialResult{GiveUp: r.GiveUp, Message: r.Message}
	if r.RequeueAfter > 0 {
		t.RequeueAfter = r.RequeueAfter.String()
	}
	for _, q := range r.Requeue {
		t.Requeue = append(t.Requeue, TrialRequeue{q.Namespace, q.Name, q.After.String()})
	}
	if r.RetryAfter != nil {
		t.RetryAfter = r.RetryAfter.String()
	}
	return t
}

// TrialAdmission is the answer to an admission review.
type TrialAdmission struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Patch is the JSON patch, as JSON if it is that.
	Patch any `json:"patch,omitempty"`
}

func trialAdmission(a effect.AdmissionAnswer) *TrialAdmission {
	t := &TrialAdmission{Allowed: a.Allowed, Message: a.Message, Warnings: a.Warnings}
	switch {
	case json.Valid(a.Patch):
		t.Patch = json.RawMessage(a.Patch)
	case len(a.Patch) > 0:
		t.Patch = string(a.Patch)
	}
	return t
}

// TrialConversion is the answer to a conversion review.
type TrialConversion struct {
	Objects []json.RawMessage `json:"convertedObjects,omitempty"`
	Failure string            `json:"failedMessage,omitempty"`
}

// TrialHTTP is the answer to an HTTP request. A body that is no text is in BodyBase64.
type TrialHTTP struct {
	Status     int                 `json:"status"`
	Headers    map[string][]string `json:"headers,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
}

func trialHTTP(a effect.HTTPAnswer) *TrialHTTP {
	t := &TrialHTTP{Status: a.Status, Headers: a.Headers}
	if utf8.Valid(a.Body) {
		t.Body = string(a.Body)
	} else {
		t.BodyBase64 = a.Body
	}
	return t
}
