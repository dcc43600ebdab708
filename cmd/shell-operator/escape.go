package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// escaping writes text to a terminal with control characters, directional overrides and invalid bytes in the escaped form of
// Go, so that the output of a hook cannot move the cursor, change the title or hide text. Line ends and tabs pass.
type escaping struct {
	w io.Writer
	// rest is the beginning of a character whose end has not been written yet.
	rest []byte
}

func (e *escaping) Write(text []byte) (int, error) {
	var out bytes.Buffer
	for all := append(e.rest, text...); ; {
		if !utf8.FullRune(all) { // also when it is empty
			e.rest = bytes.Clone(all)
			break
		}
		r, size := utf8.DecodeRune(all)
		switch one := all[:size]; {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, one[0])
		case r == '\n' || r == '\t':
			out.Write(one)
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.Write(one)
		}
		all = all[size:]
	}
	if _, err := e.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}
