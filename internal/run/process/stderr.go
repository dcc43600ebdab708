package process

import (
	"regexp"
	"slices"
	"strings"
)

// The lines of stderr by language. A group of an expression is a part of the error or of its place.
var (
	// aside are lines that follow an error: stacks, source lines, and how a caller ended.
	aside = regexp.MustCompile(`^\W*$|^Node\.js v|^\s+at .*:\d+\)?( \{)?$|^\s+from \S+:\d+:|^note: |^BEGIN failed--|` +
		"^g?jq: \\d+ compile errors?$|^exit status \\d+$|^make: \\*\\*\\* |: line \\d+: (`.*'$|\\s*\\d+ [A-Z]\\w+)")
	ruby = regexp.MustCompile("^(?P<file>\\S+?):(?P<line>\\d+):(?:in [`'](?P<function>.+?)':)? (?P<what>.+ \\([A-Z]\\w*(?:::\\w+)*\\))$")
	// single matches errors of shells, Perl and Ruby, on one line with their place.
	single = []*regexp.Regexp{
		regexp.MustCompile(`^(?P<file>\S+): line (?P<line>\d+): (?P<what>.+)$`),
		regexp.MustCompile(`^(?P<file>/\S+|sh|dash): (?P<line>\d+): (?P<what>.+)$`),
		regexp.MustCompile(`^(?P<what>.+) at (?P<file>\S+) line (?P<line>\d+)\.$`), ruby,
	}
	// several matches the first lines of longer errors, of Ruby, Go, jq, gojq, Python and Node.
	several = []*regexp.Regexp{
		ruby, regexp.MustCompile(`^(?P<what>(?:panic|fatal error): .+)$`),
		regexp.MustCompile(`^jq: error: (?P<what>.+?)(?: at <\S+>, line \d+.*)?:?$`), regexp.MustCompile(`^(?P<what>gojq: .+)$`),
		regexp.MustCompile(`^[\s|]*(?:error: )?(?:Uncaught )?(?:\(in promise\) )?(?P<what>[\w.]*[A-Z]\w*(?:Error|Exception)(?::.*)?)$`),
	}
	// within matches lines with the place of a longer error.
	within = []*regexp.Regexp{
		regexp.MustCompile(`^[\s|]*File "(?P<file>.+)", line (?P<line>\d+)(?:, in (?P<function>[^<].*))?`),
		regexp.MustCompile(`^(?P<file>/\S+):(?P<line>\d+)$`),
		regexp.MustCompile(`^\s+(?:at (?:async )?(?:(?P<function>\S+) \()?(?:file://)?)?(?P<file>/\S+?):(?P<line>\d+)[: ]`),
	}
	caret = regexp.MustCompile(`^\s*\^+\s*$`)
	// inBash matches errors of other shells about what only bash has.
	inBash = regexp.MustCompile(`^(\[\[|source|declare|function|shopt|mapfile|readarray|let|pushd|popd|typeset): not found$|` +
		`: unexpected operator$|^(syntax error: )?[Bb]ad substitution$`)
	byEnv   = regexp.MustCompile(`^(/\S+/)?env: .*No such file or directory$`)
	byChild = regexp.MustCompile(`^(subprocess\.)?CalledProcessError: `)
)

const (
	traceback = "Traceback (most recent call last):"
	// calls is the first line of a trace by the shell library.
	calls = "A command failed. Calls that led to it, the last one at the end:"
)

// meaning returns the line of stderr that a person would read, without its place in a file, and that place. It prefers places below root.
// Traced reports that the failure has been traced by the shell library: the rest is by an EXIT trap.
func meaning(stderr, root string, traced bool) (what string, at place) {
	var lines []string
	cut, inTrace := -1, false
	for line := range strings.Lines(stderr) {
		switch line = strings.TrimRight(line, " \r\n"); {
		case line == calls:
			cut, inTrace = len(lines), true
		case inTrace:
			inTrace = !strings.HasPrefix(line, "exit status ")
		case strings.HasPrefix(line, "hook::run: ") && strings.Contains(line, " failed with exit status "):
		default:
			lines = append(lines, line)
		}
	}
	if traced && cut >= 0 {
		lines = lines[:cut]
	}
	last := len(lines) - 1
	for last >= 0 && aside.MatchString(lines[last]) {
		last--
	}
	if last < 0 {
		return "", place{}
	}
	for _, one := range single {
		if what, at, ok := parts(one, lines[last]); ok {
			if !strings.ContainsAny(at.file, "./") { // sh -c
				at = place{}
			}
			return what, at
		}
	}
	what, found := strings.TrimLeft(lines[last], " |"), -1
	isPart := strings.TrimLeft(lines[last], " \t") != lines[last] || last+1 < len(lines) && lines[last+1] != "" // of an error before it
	for i, line := range lines {
		switch {
		case line == traceback:
			for end := i + 1; end < len(lines); end++ {
				if text := strings.TrimLeft(lines[end], " "); text != "" && text == lines[end] {
					what, found = text, end
					break
				}
			}
		case caret.MatchString(line) && slices.ContainsFunc(lines[i:], func(l string) bool { return strings.HasPrefix(l, "Node.js v") }):
			for end := i + 1; end < len(lines); end++ {
				if lines[end] != "" {
					what, found = strings.TrimSuffix(lines[end], " {"), end
					break
				}
			}
		case i > found && (isPart || i == last):
			for _, first := range several {
				if text, where, ok := parts(first, line); ok {
					what, at, found = text, where, i
					break
				}
			}
		}
	}
	if first := slices.Index(lines, traceback); first > 0 && byChild.MatchString(what) {
		if text, _ := meaning(strings.Join(lines[:first], "\n"), root, false); text != "" {
			what = text
		}
	}
	if found >= 0 && at.file == "" {
		at = placeOf(lines, root)
	}
	return what, at
}

// remedied adds how to fix an error that does not lead to its place, the first line of the script.
func remedied(what string) string {
	what = inBash.ReplaceAllString(what, "$0: this is bash; begin the file with #!/usr/bin/env bash")
	return byEnv.ReplaceAllString(what, "$0: install it, or change the first line of the file")
}

// LastLine is the line of stderr that a person would read; empty for none.
func LastLine(stderr string) string {
	what, _ := meaning(strings.TrimSpace(stderr), "", false)
	return Line(remedied(what), "")
}

// placeOf returns the innermost place of an error: the last one of Python, whose calls end with it, the first one of others.
func placeOf(lines []string, root string) (at place) {
	for _, line := range lines {
		for i, one := range within {
			_, where, ok := parts(one, line)
			if ok && strings.HasPrefix(where.file, root) && (i == 0 || at.file == "") {
				at = where
			}
		}
	}
	return at
}

// parts returns the groups of a line.
func parts(e *regexp.Regexp, line string) (what string, at place, ok bool) {
	found := e.FindStringSubmatch(line)
	if found == nil {
		return "", place{}, false
	}
	for i, name := range e.SubexpNames() {
		switch name {
		case "what":
			what = found[i]
		case "file":
			at.file = found[i]
		case "line":
			at.line = found[i]
		case "function":
			at.function = found[i]
		}
	}
	return what, at, true
}
