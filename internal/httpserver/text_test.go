package httpserver

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a name": "a name", strings.Repeat("n", maxText): strings.Repeat("n", maxText),
		strings.Repeat("n", maxText+1): strings.Repeat("n", maxText) + "…", strings.Repeat("ü", 200): strings.Repeat("ü", maxText/2) + "…",
	} {
		if got := Text(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	}
}
