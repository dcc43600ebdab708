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

// Decoder decodes objects one after the other and interns the names of members. The zero value is usable, by one goroutine
// at a time.
type Decoder struct {
	names map[string]string
	// current is reused for each object.
	current Object
}

// Bounds of the interned names: names that are data, not schema, do not repeat.
const (
	maxNames      = 4096
	maxNameLength = 64
)

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Decode makes of JSON what filters take.
func Decode(text []byte) (any, error) { return new(Decoder).Decode(text) }

// Decode decodes JSON for filters. Filters do not modify the result, so several may use it concurrently. It shares no memory
// with text.
func (d *Decoder) Decode(text []byte) (any, error) {
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
	return d.decode(text, everything, false), nil
}

// decode decodes valid JSON as far as it is needed. With share, strings in the result alias text.
func (d *Decoder) decode(text []byte, need *Need, share bool) any {
	if d.names == nil {
		d.names = map[string]string{}
	}
	w := walk{Walker: Walk(text), d: d, share: share}
	v := w.value(need)
	if w.Err() != nil {
		return nil
	}
	return v
}

// walk is the state of decoding one text.
type walk struct {
	Walker
	d     *Decoder
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
		name := w.d.name(quoted)
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

func (w *walk) text(quoted []byte) string {
	if plain(quoted) {
		return w.string(quoted[1 : len(quoted)-1])
	}
	return unquote(quoted)
}

// string returns a part of the text as a string.
func (w *walk) string(part []byte) string {
	if w.share {
		return unsafe.String(unsafe.SliceData(part), len(part))
	}
	return string(part)
}

// plain reports whether a string has no escapes and no invalid UTF-8.
func plain(quoted []byte) bool {
	return len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted)
}

// unquote replaces invalid UTF-8.
func unquote(quoted []byte) string {
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// name returns the interned name of a member, which never aliases the text.
func (d *Decoder) name(quoted []byte) string {
	if len(quoted) > maxNameLength || !plain(quoted) {
		return unquote(quoted)
	}
	if name, ok := d.names[string(quoted[1:len(quoted)-1])]; ok {
		return name
	}
	name := string(quoted[1 : len(quoted)-1])
	if len(d.names) < maxNames {
		d.names[name] = name
	}
	return name
}
