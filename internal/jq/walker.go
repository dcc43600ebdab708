package jq

import (
	"bytes"
	"io"
)

// Walker is a position in JSON text that is known to be valid: jsontext validates it, once. Walk creates it; a copy is independent.
//
// It copies and allocates nothing, and skipping a string costs no more than a search for its closing quote. Invalid text gives an
// incorrect result or an error, but no panic and no infinite loop.
type Walker struct {
	text []byte
	at   int
	err  error
}

// Walk returns a Walker before the first value of a text.
func Walk(text []byte) Walker { return Walker{text: text} }

// Offset is the position behind the last token that was read.
func (w *Walker) Offset() int { return w.at }

// Err is io.ErrUnexpectedEOF if the text was not as expected.
func (w *Walker) Err() error { return w.err }

// Kind returns the first byte of the next value, or the bracket that ends an object or array; 0 at the end.
func (w *Walker) Kind() byte {
	for ; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// Enter enters an object or array, whose first byte is open. It returns false if the next value is of another type.
func (w *Walker) Enter(open byte) bool {
	if w.Kind() != open {
		return false
	}
	w.at++
	return true
}

// Member returns the raw name of the next member of an object, with quotes. After the last one it leaves the object and
// returns nil.
func (w *Walker) Member() (name []byte) {
	switch w.Kind() {
	case '"':
		return w.Value()
	case '}':
		w.at++
	default:
		w.fail()
	}
	return nil
}

// Element reports whether the array has another element. If not, it leaves the array.
func (w *Walker) Element() bool {
	switch w.Kind() {
	case ']':
		w.at++
		return false
	case '}', 0:
		w.fail()
		return false
	}
	return true
}

// Value returns the raw text of the next value.
func (w *Walker) Value() []byte {
	w.Kind()
	from := w.at
	w.Skip()
	return w.text[from:w.at]
}

// Skip skips the next value.
func (w *Walker) Skip() {
	switch w.Kind() {
	case '"':
		w.skipText()
	case '{', '[':
		w.skipNested()
	case '}', ']', 0:
		w.fail()
	default:
		for w.at++; w.at < len(w.text); w.at++ {
			switch w.text[w.at] {
			case ',', '}', ']', ' ', '\t', '\r', '\n':
				return
			}
		}
	}
}

// skipText skips a string: a quote ends it, unless an odd number of backslashes precedes it.
func (w *Walker) skipText() {
	for w.at++; ; {
		n := bytes.IndexByte(w.text[w.at:], '"')
		if n < 0 {
			w.fail()
			return
		}
		quote := w.at + n
		w.at = quote + 1
		escapes := 0
		for n > escapes && w.text[quote-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return
		}
	}
}

func (w *Walker) skipNested() {
	for depth := 0; w.at < len(w.text); {
		switch w.text[w.at] {
		case '"':
			w.skipText()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.at++
		if depth == 0 {
			return
		}
	}
	w.fail()
}

func (w *Walker) fail() { w.at, w.err = len(w.text), io.ErrUnexpectedEOF }
