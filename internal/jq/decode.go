package jq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Decoder decodes many objects one after the other. Names of members, which are the same in most of them, are kept
// once. The zero value can be used; by one goroutine at a time.
type Decoder struct {
	src   *bytes.Reader
	dec   *jsontext.Decoder
	names map[string]string
	// current is used again for each object.
	current Object
}

// Decode makes of JSON what filters take.
func Decode(text []byte) (any, error) { return new(Decoder).Decode(text) }

// Bounds of what a Decoder remembers: names that come from data instead of a schema are not worth it.
const (
	maxNames      = 4096
	maxNameLength = 64
)

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Decode makes of JSON what filters take. The result may be handed to several filters, one after the other or at once:
// they do not change it. It shares no memory with text.
func (d *Decoder) Decode(text []byte) (any, error) { return d.decode(text, everything) }

func (d *Decoder) decode(text []byte, need *Need) (any, error) {
	if d.src == nil {
		d.src, d.names = bytes.NewReader(text), map[string]string{}
		d.dec = jsontext.NewDecoder(d.src, lenient...)
	} else {
		d.src.Reset(text)
		d.dec.Reset(d.src, lenient...)
	}
	v, err := d.value(need)
	if err == nil {
		if _, end := d.dec.ReadToken(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decode the object for jqFilter: %w", err)
	}
	return v, nil
}

func (d *Decoder) value(need *Need) (any, error) {
	switch d.dec.PeekKind() {
	case '{':
		return d.object(need)
	case '[':
		return d.array(need)
	case '"':
		if need != everything {
			return "", d.dec.SkipValue() // whoever reads a text reads all of it
		}
	case '0':
		v, err := d.dec.ReadValue()
		return json.Number(v), err
	}
	tok, err := d.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '"':
		return tok.String(), nil
	case 't', 'f':
		return tok.Bool(), nil
	}
	return nil, nil
}

func (d *Decoder) object(need *Need) (any, error) {
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	m := map[string]any{}
	for d.dec.PeekKind() != '}' {
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		inner := need.lookup(name)
		if inner == nil {
			err = d.dec.SkipValue()
		} else {
			m[name], err = d.value(inner)
		}
		if err != nil {
			return nil, err
		}
	}
	_, err := d.dec.ReadToken()
	return m, err
}

// name reads the name of a member.
func (d *Decoder) name() (string, error) {
	v, err := d.dec.ReadValue()
	switch {
	case err != nil:
		return "", err
	case len(v) < 2 || len(v) > maxNameLength || bytes.IndexByte(v, '\\') >= 0 || !utf8.Valid(v):
		text, _ := jsontext.AppendUnquote(nil, v) // what is no UTF-8 has been replaced
		return string(text), nil
	}
	if name, ok := d.names[string(v[1:len(v)-1])]; ok {
		return name, nil
	}
	name := string(v[1 : len(v)-1])
	if len(d.names) < maxNames {
		d.names[name] = name
	}
	return name, nil
}

func (d *Decoder) array(need *Need) (any, error) {
	if need.rest == nil {
		return []any{}, d.dec.SkipValue()
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	list := []any{}
	for d.dec.PeekKind() != ']' {
		v, err := d.value(need.rest)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.dec.ReadToken()
	return list, err
}
