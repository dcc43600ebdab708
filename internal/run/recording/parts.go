package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// part is a part of a binding context that is redacted by itself, so that only one of them is decoded at a time: a field of the context, or
// an item of objects or of a snapshot, whose field is empty and whose binding is that of the snapshot.
type part struct{ binding, kind, field string }

// eachPart copies binding contexts and changes their parts.
func eachPart(w io.Writer, contexts []byte, change func(part, []byte) ([]byte, error)) error {
	p := &partWriter{
		from:   jsontext.NewDecoder(bytes.NewReader(contexts), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		to:     jsontext.NewEncoder(w, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		change: change,
	}
	if err := p.list(p.context); err != nil {
		return fmt.Errorf("cannot read the binding contexts: %w", err)
	}
	return nil
}

type partWriter struct {
	from   *jsontext.Decoder
	to     *jsontext.Encoder
	change func(part, []byte) ([]byte, error)
}

// token copies a bracket.
func (p *partWriter) token(want jsontext.Kind) error {
	token, err := p.from.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != want {
		return fmt.Errorf("%v is in the place of %v: did the hook change the file?", token.Kind(), want)
	}
	return p.to.WriteToken(token)
}

// list copies a list item by item.
func (p *partWriter) list(item func() error) error {
	if err := p.token('['); err != nil {
		return err
	}
	for p.from.PeekKind() != ']' {
		if err := item(); err != nil {
			return err
		}
	}
	return p.token(']')
}

// object copies an object field by field.
func (p *partWriter) object(field func(name string) error) error {
	if err := p.token('{'); err != nil {
		return err
	}
	for p.from.PeekKind() != '}' {
		name, err := p.from.ReadToken()
		if err == nil {
			text := name.String()
			if err = p.to.WriteToken(jsontext.String(text)); err == nil {
				err = field(text)
			}
		}
		if err != nil {
			return err
		}
	}
	return p.token('}')
}

func (p *partWriter) part(at part) error {
	text, err := p.from.ReadValue()
	if err != nil {
		return err
	}
	if text, err = p.change(at, text); err != nil {
		return err
	}
	return p.to.WriteValue(text)
}

// context copies a context. The operator writes the binding and the type before what depends on them.
func (p *partWriter) context() error {
	var binding, kind string
	return p.object(func(name string) error {
		switch name {
		case "objects", "deleting":
			return p.list(func() error { return p.part(part{binding, kind, ""}) })
		case "snapshots":
			return p.object(func(of string) error { return p.list(func() error { return p.part(part{of, kind, ""}) }) })
		case "binding", "type":
			text, err := p.from.ReadValue()
			if err != nil {
				return err
			}
			into := &binding
			if name == "type" {
				into = &kind
			}
			if err := json.Unmarshal(text, into); err != nil {
				return err
			}
			return p.to.WriteValue(text)
		}
		if binding == "" {
			return fmt.Errorf("%q is before the binding: did the hook change the file?", name)
		}
		return p.part(part{binding, kind, name})
	})
}
