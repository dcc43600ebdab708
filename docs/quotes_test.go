package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// quotes returns what the first column of a page's tables quotes, of tables with one of these titles above that column.
func quotes(text string) (all []string) {
	var title string
	inside := false
	for line := range strings.Lines(text) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !ok {
			inside = false
			continue
		}
		first, _, _ := strings.Cut(strings.TrimSpace(row), " | ")
		if !inside {
			inside, title = true, strings.Trim(first, "`")
			continue
		}
		if title != "msg" && title != "error" && title != "reason" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(first, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

var verb = regexp.MustCompile(`%[+#]?[a-z]`)

// isExample reports whether a quote has a message in it, with values in the place of its verbs.
func isExample(quote, message string) bool {
	parts := verb.Split(message, -1)
	if len(strings.Join(parts, "")) < 12 {
		return false
	}
	for _, part := range parts {
		_, rest, ok := strings.Cut(quote, part)
		if !ok {
			return false
		}
		quote = rest
	}
	return true
}

// TestQuotedMessages finds the messages that tables of pages quote in the source of the program.
func TestQuotedMessages(t *testing.T) {
	messages := literals(t)
	count := 0
	for path, text := range pageTexts(t, "..") {
		for _, quote := range quotes(text) {
			count++
			if !slices.ContainsFunc(messages, func(m string) bool { return says(m, quote) || isExample(quote, m) }) {
				t.Errorf("%s: no message of the program is %q", path, quote)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d messages are quoted", count)
	}
}
