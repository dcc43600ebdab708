// Package jsonwalk walks through JSON text that somebody has found valid already.
//
// Callers may rely on this:
//   - What is skipped costs next to nothing: texts are passed over as fast as memory can be searched for a quote.
//   - Nothing is copied and nothing is allocated.
//   - Of text that is not valid come wrong answers, or an error, but never a panic and never a walk without end.
//
// Not attempted: to find out whether text is valid. That is jsontext's work, and has to be done once.
package jsonwalk

import (
	"bytes"
	"io"
)

// Walker stands somewhere in a text. It is made by On; a copy walks by itself.
type Walker struct {
	text []byte
	at   int
	err  error
}

// On returns a Walker before the first value of a text.
func On(text []byte) Walker { return Walker{text: text} }

// Offset is where the walker stands: behind the last thing that it was asked for.
func (w *Walker) Offset() int { return w.at }

// Err is io.ErrUnexpectedEOF when there was not what there must be.
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

// Enter steps into an object or array, whose first byte is open. It returns false when the next value is none.
func (w *Walker) Enter(open byte) bool {
	if w.Kind() != open {
		return false
	}
	w.at++
	return true
}

// Member returns the name of the next member of an object, as it is, with quotes. After the last one it leaves the object
// and returns nil.
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

// Element tells whether the array has another element, which is then next. Otherwise it leaves the array.
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

// Value returns the next value as it is.
func (w *Walker) Value() []byte {
	w.Kind()
	from := w.at
	w.Skip()
	return w.text[from:w.at]
}

// Skip passes over the next value.
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

// skipText passes over a text: a quote ends it, unless an odd number of backslashes stands before the quote.
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
