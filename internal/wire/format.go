package wire

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Forms are the texts of hooks, as values that can be written again: Parse of the JSON of a form is the value that it was made of. Metrics,
// results and answers to conversions are their own forms.

// Admission is the form of an answer to an admission review.
type Admission struct {
	Allowed  bool     `json:"allowed"`
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Patch is the text that hooks write in base64: the JSON patch, or a text that is no JSON.
	Patch json.RawMessage `json:"patch,omitempty"`
}

// FormatAdmission returns the form of an answer. Its patch aliases the patch of the answer.
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
