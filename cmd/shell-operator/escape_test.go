package main

import (
	"bytes"
	"testing"
)

// TestEscaping writes byte by byte, too: characters may arrive in pieces.
func TestEscaping(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":               "plain\ttext\n",
		"\x1b]0;owned\a\x1b[2Jä✓":     `\x1b]0;owned\x07\x1b[2Jä✓`,
		"over\rwritten\x7f":           `over\x0dwritten\x7f`,
		"C1 \u009b2J, bidi \u202egpj": `C1 \u009b2J, bidi \u202egpj`,
		"\xff\xfe!":                   `\xff\xfe!`,
	} {
		var whole, pieces bytes.Buffer
		if n, err := (&escaping{w: &whole}).Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d %v", n, err)
		}
		e := &escaping{w: &pieces}
		for i := range len(text) {
			_, _ = e.Write([]byte{text[i]})
		}
		if whole.String() != want || pieces.String() != want {
			t.Errorf("%q and %q, want %q", whole.String(), pieces.String(), want)
		}
	}
}
