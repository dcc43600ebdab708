package docs

import (
	_ "embed"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed reference/errors.md
var errorsPage string

// Error is a row of the page of errors.
type Error struct {
	Code string
	// Messages have … for what varies.
	Messages   []string
	Cause, Fix string
}

var linked = regexp.MustCompile(`\[([^][]*)\]\(([^)]*)\)`)

// unlink replaces links by their texts, followed by the file of a link to another page.
func unlink(text string) string {
	return linked.ReplaceAllStringFunc(text, func(link string) string {
		m := linked.FindStringSubmatch(link)
		if page, _, _ := strings.Cut(path.Base(m[2]), "#"); strings.HasSuffix(page, ".md") && !strings.Contains(m[1], page) {
			return m[1] + " (" + page + ")"
		}
		return m[1]
	})
}

// Errors returns the rows of the page.
var Errors = sync.OnceValue(func() (all []Error) {
	for line := range strings.Lines(errorsPage) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || cells[3] == "code" {
			continue
		}
		e := Error{Code: cells[3], Cause: unlink(cells[1]), Fix: unlink(cells[2])}
		for i, quote := range strings.Split(cells[0], "`") {
			if i%2 == 1 {
				e.Messages = append(e.Messages, quote)
			}
		}
		all = append(all, e)
	}
	return all
})

// CodeOf returns the code of a message: from the row with the longest text that the message has. It is empty if there is none.
func CodeOf(message string) (code string) {
	longest := 0
	for _, e := range Errors() {
		for _, m := range e.Messages {
			if n := len(strings.ReplaceAll(m, "…", "")); n > longest && contains(message, m) {
				code, longest = e.Code, n
			}
		}
	}
	return code
}

// contains reports whether a text has the fixed parts of a message, in order.
func contains(text, message string) bool {
	for part := range strings.SplitSeq(message, "…") {
		_, rest, ok := strings.Cut(text, strings.Trim(part, ` "[]`))
		if !ok {
			return false
		}
		text = rest
	}
	return true
}
