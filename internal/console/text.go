package console

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// shownText limits a text of an operator on a page. A browser lays out a line of a mebibyte for seconds.
const shownText = 64 << 10

// plain makes a text visible, and cuts what is too long.
func plain(text string) string {
	if len(text) <= shownText {
		return Visible(text)
	}
	end := shownText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return Visible(text[:end]) + fmt.Sprintf(" … and %d more bytes", len(text)-end)
}

// Visible writes control characters, those that change the direction of a text, and invalid bytes in the escaped form of Go, so that output
// of a hook cannot move a cursor, change a title or hide text. Line ends and tabs stay.
func Visible(text string) string {
	hidden := func(r rune) bool { return r != '\n' && r != '\t' && !visible(r) }
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case !hidden(r):
			b.WriteString(rest[:size])
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

// visible reports whether a rune is what it looks like: no control character, and none that changes the direction of a text.
func visible(r rune) bool {
	return r != utf8.RuneError && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029'
}

// Quote makes a word one for a POSIX shell.
func Quote(word string) string {
	safe := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !safe(r) }) < 0 {
		return word
	}
	if strings.IndexFunc(word, func(r rune) bool { return !visible(r) }) >= 0 {
		// A line end or an escape in a name would change what a terminal does with the copied command.
		var b strings.Builder
		for rest := word; rest != ""; {
			r, size := utf8.DecodeRuneInString(rest)
			for _, c := range []byte(rest[:size]) {
				if !visible(r) || c == '\'' || c == '\\' {
					fmt.Fprintf(&b, `\x%02x`, c)
				} else {
					b.WriteByte(c)
				}
			}
			rest = rest[size:]
		}
		return "$'" + b.String() + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ago is a coarse age.
func ago(d time.Duration) string { return duration.HumanDuration(d) + " ago" }

// mark is a sign before a state, so that pages can be read without colour.
func mark(state string) string {
	switch word, _, _ := strings.Cut(state, ","); word {
	case "succeeded", "ready", "watching", "scheduled", "serving", "done", "idle", "applied", "healthy":
		return "✓"
	case "running", "synchronizing", "starting":
		return "▶"
	case "waiting", "rate limit", "waiting for onStartup", "queued", "waiting for CRD":
		return "…"
	case "paused", "standby", "interrupted", "stopped", "unknown":
		return "‖"
	}
	return "✕"
}

// word is a state as a class of the style sheet.
func word(state string) string {
	first, _, _ := strings.Cut(state, ",")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case visible(r):
			return r
		}
		return -1
	}, first)
}

// objectPath is an object as pages of objects have it in their addresses, Kind/namespace/name or Kind/name; empty without a name.
func objectPath(kind, namespace, name string) string {
	kind, _, _ = strings.Cut(kind, "/") // a subresource
	switch {
	case name == "":
		return ""
	case namespace == "":
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}

// objectOf is the object of a lane's key, as pages of objects have it in their addresses: "Order.example.com/shop/blue". Keys of another
// form name none.
func objectOf(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || !unicode.IsUpper(rune(key[0])) {
		return ""
	}
	return key
}

// outcomeMark is the sign before the text of a run that has ended.
func outcomeMark(text string) string {
	status, _, _ := strings.Cut(text, " ")
	return mark(strings.TrimSuffix(status, ","))
}
