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

	"github.com/shell-operator/shell-operator/internal/jsonwalk"
)

// Decoder decodes many objects one after the other. Names of members, which are the same in most of them, are kept
// once. The zero value can be used; by one goroutine at a time.
type Decoder struct {
	names map[string]string
	// current is used again for each object.
	current Object
}

// Bounds of what a Decoder remembers: names that come from data instead of a schema are not worth it.
const (
	maxNames      = 4096
	maxNameLength = 64
)

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Decode makes of JSON what filters take.
func Decode(text []byte) (any, error) { return new(Decoder).Decode(text) }

// Decode makes of JSON what filters take. The result may be handed to several filters, one after the other or at once:
// they do not change it. It shares no memory with text.
func (d *Decoder) Decode(text []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	err := dec.SkipValue()
	if err == nil {
		if _, end := dec.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decode the object for jqFilter: %w", err)
	}
	return d.decode(text, everything, false), nil
}

// decode decodes valid JSON as far as it is needed. With share, texts in the result are parts of text.
func (d *Decoder) decode(text []byte, need *Need, share bool) any {
	if d.names == nil {
		d.names = map[string]string{}
	}
	w := walk{Walker: jsonwalk.On(text), d: d, share: share}
	v := w.value(need)
	if w.Err() != nil {
		return nil
	}
	return v
}

// walk is the way through one text.
type walk struct {
	jsonwalk.Walker
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
			return "" // whoever reads a text reads all of it
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

// string makes a string of a part of the text.
func (w *walk) string(part []byte) string {
	if w.share {
		return unsafe.String(unsafe.SliceData(part), len(part))
	}
	return string(part)
}

// plain tells whether a text means what stands between its quotes.
func plain(quoted []byte) bool {
	return len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted)
}

// unquote replaces what is no UTF-8.
func unquote(quoted []byte) string {
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// name returns the name of a member. It is a copy, whatever the text is shared with.
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
