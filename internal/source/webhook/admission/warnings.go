package admission

import (
	"strings"
	"unicode"
)

// presentable prepares warnings for the API server, which drops those with line breaks. It also truncates long ones.
func presentable(warnings []string) (fit []string) {
	for _, w := range warnings {
		w = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(w, "\uFFFD"),
			func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
		if w != "" {
			fit = append(fit, w)
		}
	}
	return fit
}
