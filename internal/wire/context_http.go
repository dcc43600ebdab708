package wire

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/shell-operator/shell-operator/internal/event"
)

// request writes an HTTP request. A body of JSON is there twice: signatures are computed over the text.
func (o *contextWriter) request(r *event.Request) {
	form := struct {
		*event.Request
		// Body is the body if it is UTF-8; otherwise it is in BodyBase64.
		Body       string `json:"body,omitempty"`
		BodyBase64 []byte `json:"bodyBase64,omitempty"`
	}{Request: r}
	if utf8.Valid(r.Body) {
		form.Body = string(r.Body)
	} else {
		form.BodyBase64 = r.Body
	}
	text, err := json.Marshal(form, json.Deterministic(true))
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("cannot write a request as JSON: %w", err)
		return
	}
	if r.IsJSON {
		text = append(append(text[:len(text)-1], `,"json":`...), r.Body...)
		text = append(text, '}')
	}
	_, _ = o.w.Write(text)
}
