package hook

import (
	"path/filepath"
	"strings"
	"unicode"
)

// maxName is the number of bytes of a name that is shown and counted as it is.
const maxName = 253

// IsName reports whether a text that is read from an object may be the name of a hook: a path of letters, digits, dots, dashes and
// underscores.
func IsName(text string) bool {
	return text != "" && len(text) <= maxName && filepath.IsLocal(text) && filepath.Clean(text) == text && !strings.HasPrefix(text, "-") &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/", r)
		})
}

// Word returns a name as one word of a shell command.
func Word(name string) string {
	if IsName(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
