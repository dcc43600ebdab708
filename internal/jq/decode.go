package jq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Decode decodes JSON for filters. Filters do not modify the result, so several may use it concurrently. It shares no memory
// with text.
func Decode(text []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	err := dec.SkipValue()
	if err == nil {
		if _, end := dec.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("there is text after the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decode the object for jqFilter: %w", err)
	}
	return decode(text, everything, false), nil
}

// decode decodes valid JSON as far as it is needed. With share, strings in the result alias text.
func decode(text []byte, need *Need, share bool) any {
	w := walk{Walker: Walk(text), share: share}
	v := w.value(need)
	if w.Err() != nil {
		return nil
	}
	return v
}

// walk is the state of decoding one text.
type walk struct {
	Walker
	share bool
}

func (w *walk) value(need *Need) any {
	switch w.Kind() {
	case '{':
		return w.object(need)
	case '[':
		return w.array(need)
	case '"':
		if need != everything {
			w.Skip()
			return "" // only its type is read
		}
		return w.text(w.Value())
	case 't':
		w.Skip()
		return true
	case 'f':
		w.Skip()
		return false
	case 'n':
		w.Skip()
		return nil
	}
	return json.Number(w.string(w.Value()))
}

func (w *walk) object(need *Need) any {
	w.Enter('{')
	m := map[string]any{}
	for quoted := w.Member(); quoted != nil; quoted = w.Member() {
		name := w.text(quoted)
		if inner := need.lookup(name); inner != nil {
			m[name] = w.value(inner)
		} else {
			w.Skip()
		}
	}
	return m
}

func (w *walk) array(need *Need) any {
	list := []any{}
	if need.rest == nil {
		w.Skip()
		return list
	}
	w.Enter('[')
	for w.Element() {
		list = append(list, w.value(need.rest))
	}
	return list
}

// text returns a quoted string without escapes and invalid UTF-8.
func (w *walk) text(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return w.string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// string returns a part of the text as a string.
func (w *walk) string(part []byte) string {
	if w.share {
		return unsafe.String(unsafe.SliceData(part), len(part))
	}
	return string(part)
}
