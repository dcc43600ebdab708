package admission

import (
	"strings"
	"unicode"
)

// The API server passes on this many characters of all warnings together; beyond, this many of each.
const (
	allWarnings = 4096
	oneWarning  = 256
)

// presentable prepares warnings for the API server, which drops empty ones and those with line breaks, and truncates long
// ones.
func presentable(warnings []string) []string {
	var fit []string
	total := 0
	for _, w := range warnings {
		w = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(w, "\uFFFD"),
			func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
		if w != "" {
			fit = append(fit, w)
			total += len([]rune(w))
		}
	}
	if total <= allWarnings {
		return fit
	}
	left := allWarnings
	for i, w := range fit {
		text := []rune(w)
		text = text[:min(len(text), oneWarning)]
		if len(text) > left {
			return fit[:i]
		}
		left -= len(text)
		fit[i] = string(text)
	}
	return fit
}
