package docs

import (
	"embed"
	"regexp"
	"strings"
)

// HookSchema and TestSchema are the JSON Schemas of the configuration of hooks and of test files; OperationSchema, ContextSchema and
// ResultSchema describe one operation, one binding context and the result file of a run.
var (
	//go:embed reference/hook-configuration.schema.json
	HookSchema []byte
	//go:embed reference/test-file.schema.json
	TestSchema []byte
	//go:embed reference/operation.schema.json
	OperationSchema []byte
	//go:embed reference/binding-context.schema.json
	ContextSchema []byte
	//go:embed reference/result-file.schema.json
	ResultSchema []byte
)

// Pages are reference pages that the program explains.
//
//go:embed reference/shell-library.md reference/python-library.md reference/hook-process.md reference/hook-metrics.md
//go:embed reference/webhooks.md reference/http-hooks.md reference/test-files.md reference/binding-contexts.md
var Pages embed.FS

var (
	commented = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	blank     = regexp.MustCompile(`\n{3,}`)
)

// Page returns a page as text for a terminal: without comments, with the file of each link to another page. With a word, only the
// paragraphs and rows that have it, below their headings, and the sections whose headings have it; upper and lower case are equal.
func Page(name, word string) string {
	text, _ := Pages.ReadFile("reference/" + name)
	page := blank.ReplaceAllString(unlink(commented.ReplaceAllString(string(text), "")), "\n\n")
	if word == "" {
		return page
	}
	var b strings.Builder
	heading, level := "", 0 // of the section that is printed as a whole; 0 is none
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(word)) }
	for part := range strings.SplitSeq(page, "\n\n") {
		if strings.HasPrefix(part, "#") {
			heading = part + "\n\n"
			if n := len(part) - len(strings.TrimLeft(part, "#")); level == 0 || n <= level {
				level = 0
				if n > 1 && has(part) {
					level = n
				}
			}
			continue
		}
		if strings.HasPrefix(part, "|") && level == 0 {
			var rows []string
			for row := range strings.SplitSeq(part, "\n") {
				if has(row) {
					rows = append(rows, row)
				}
			}
			part = strings.Join(rows, "\n")
		}
		if level > 0 || has(part) {
			b.WriteString(heading + part + "\n\n")
			heading = ""
		}
	}
	return b.String()
}
