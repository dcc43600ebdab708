package wire

import (
	"encoding/base64"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/event"
)

// request writes an HTTP request.
func (o *contextWriter) request(r *event.Request) {
	o.raw(`{"id":`)
	o.quoted(r.ID)
	o.field("method", r.Method)
	o.field("path", r.Path)
	o.raw(`,"pathValues":`)
	writeMap(o, r.PathValues, o.quoted)
	o.raw(`,"query":`)
	writeMap(o, r.Query, o.list)
	o.raw(`,"headers":`)
	writeMap(o, r.Headers, o.list)
	o.body(r)
	if u := r.User; u != nil {
		o.raw(`,"user":{"username":`)
		o.quoted(u.Name)
		o.field("uid", u.UID)
		o.raw(`,"groups":`)
		o.list(u.Groups)
		o.raw(`,"extra":`)
		writeMap(o, u.Extra, o.list)
		o.raw("}")
	}
	o.raw("}")
}

// body writes the body as text if it is UTF-8, and also as JSON if it is valid: signatures are computed over the text.
func (o *contextWriter) body(r *event.Request) {
	switch {
	case len(r.Body) == 0:
		return
	case utf8.Valid(r.Body):
		o.field("body", string(r.Body))
	default:
		o.field("bodyBase64", base64.StdEncoding.EncodeToString(r.Body))
	}
	if r.IsJSON {
		o.raw(`,"json":`)
		_, _ = o.w.Write(r.Body)
	}
}

func (o *contextWriter) list(values []string) {
	o.raw("[")
	for i, v := range values {
		if i > 0 {
			o.raw(",")
		}
		o.quoted(v)
	}
	o.raw("]")
}

// writeMap writes an object with sorted keys.
func writeMap[V any](o *contextWriter, values map[string]V, write func(V)) {
	o.raw("{")
	for i, key := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			o.raw(",")
		}
		o.quoted(key)
		o.raw(":")
		write(values[key])
	}
	o.raw("}")
}
