package script

import (
	"regexp"
	"slices"
	"strings"
)

// contextVariable has the path of the file with the contexts.
const contextVariable = "BINDING_CONTEXT_PATH"

// Reading is what the lines of a script show about its binding contexts.
type Reading struct {
	// Members are what it reads of the first context.
	Members []Member
	// Others is the first line that reads other contexts, too; the zero value if there is none.
	Others Place
}

// Member is one place where a script reads a member of its first context. An empty name is the whole context.
type Member struct {
	Name string
	Place
}

// Place is a line of a script. The zero value is no place.
type Place struct {
	Path string
	// Line and Column count from 1. Text is the line itself, which begins at Column.
	Line, Column int
	Text         string
}

// EventData returns the first place that reads data of an event in the first context: the other members are equal in all contexts
// of a run, or often the only ones that a hook needs to handle all objects in one run.
func (r Reading) EventData() (at Place, ok bool) {
	i := slices.IndexFunc(r.Members, func(m Member) bool { return !slices.Contains([]string{"binding", "type", "snapshots"}, m.Name) })
	if i < 0 {
		return Place{}, false
	}
	return r.Members[i].Place, true
}

// FirstOnly reports that no line reads another context than the first one.
func (r Reading) FirstOnly() bool { return r.Others == Place{} }

// OneByOne returns the line that decides that the script is run once per context: it reads event data of the first context, and no
// line reads another one.
func (r Reading) OneByOne() (at Place, ok bool) {
	at, ok = r.EventData()
	return at, ok && r.FirstOnly()
}

// Reads reports whether the script reads a member of the first context.
func (r Reading) Reads(member string) bool {
	return slices.ContainsFunc(r.Members, func(m Member) bool { return m.Name == member })
}

// Contexts searches a script, and the files that it sources, for the lines that read its contexts: those with BINDING_CONTEXT_PATH, or
// with a variable that such a line sets to the path or to all contexts. The first index in a line decides: .[0] at the root of a jq
// filter, or [0] in Python, reads the first context, another one reads others. Without an index, a loop or the number of contexts reads
// others. A line that only passes the contexts on decides nothing: a hook that is run once per context without need works and takes
// longer, while one that gets many and reads the first loses events.
func Contexts(s Source, sourced ...Source) (r Reading) {
	python := s.IsPython()
	if _, _, isShell := s.Shell(); !isShell && !python {
		return r
	}
	lines := s.lines()
	for _, f := range sourced {
		lines = append(lines, f.lines()...)
	}
	for names := []string{contextVariable}; ; {
		known := len(names)
		r, names = search(lines, names, python)
		// A function of a shell may read a variable that a later line sets. In Python a name may have many meanings: the latest one counts.
		if python || len(names) == known {
			return r
		}
	}
}

// CallsShellLibrary reports whether a shell script, or a file that it sources, lets the library read its contexts.
func CallsShellLibrary(s Source, sourced ...Source) bool {
	if _, _, isShell := s.Shell(); !isShell {
		return false
	}
	return slices.ContainsFunc(append([]Source{s}, sourced...), func(f Source) bool {
		return slices.ContainsFunc(f.lines(), func(l line) bool { return library.MatchString(l.text) })
	})
}

// search reads all lines, and returns the variables that have the path or all contexts as well.
func search(lines []line, names []string, python bool) (r Reading, all []string) {
	find := patternsOf(names, python)
	for _, l := range lines {
		reads := r.read(l, find)
		m := find.assignment.FindStringSubmatchIndex(l.text)
		if m == nil {
			continue
		}
		name, value := l.text[m[2]:m[3]], l.text[:m[0]]+l.text[m[1]:]
		at, isAll := slices.Index(names, name), !reads && (!python || find.mention.MatchString(value))
		switch {
		case isAll && at < 0 && len(names) <= maxNames:
			names = append(names, name)
		case !isAll && at > 0 && python:
			names = slices.Delete(names, at, at+1)
		default:
			continue
		}
		find = patternsOf(names, python)
	}
	return r, names
}

// read records what a line reads of the contexts. It returns false if the line has none, or all of them as they are.
func (r *Reading) read(l line, find patterns) bool {
	others, indexed := library.MatchString(l.text), false
	if find.mention.MatchString(l.text) {
		for _, m := range find.index.FindAllStringSubmatchIndex(l.text, -1) {
			index := l.text[m[2]:m[3]]
			if strings.Contains(index, `"`) && !strings.Contains(index, "$") {
				continue // the key of a member
			}
			if index == "0" {
				r.Members = append(r.Members, Member{member.FindStringSubmatch(l.text[m[1]:])[1], l.Place})
			}
			others = others || index != "0" && !indexed
			indexed = true
		}
		others = others || !indexed && loop.MatchString(l.text)
	}
	if others && r.FirstOnly() {
		r.Others = l.Place
	}
	return others || indexed
}

// maxNames and maxJoined bound the time that a strange script takes, maxShown what is shown of a line.
const maxNames, maxJoined, maxShown = 20, 100, 120

// An assignment of a shell has the path, or the output of a command that reads all: file=$path, text=$(cat "$path").
const shellAssignment = "(?:^|[\\s;&({])([A-Za-z_]\\w*)=[\"']?(?:(?:\\$\\(|`)\\s*(?:cat|jq|<)[^|)]*)?[\"']?"

var (
	loop    = regexp.MustCompile(`\bfor\s+[\w, ()]+\s+in\b|\bwhile\s+(?:IFS=\S*\s+)?read\b|\b(?:length|keys|to_entries)\b|\b(?:len|map)\(`)
	library = regexp.MustCompile(`\bhook::run\b|\bcontext::`)
	// An assignment of Python has the value behind it, or before it: with open(path) as f.
	pythonAssignment = regexp.MustCompile(`(?:^\s*|\bas\s+)([\w.]+)\s*(?::[^=]*=|:|=)`)
	// A member follows an index: .object, ["object"], | .object, .get("object").
	member = regexp.MustCompile(`^(?:\s*(?:\|\s*)?(?:\.get\(|\.|\[)\\?["']?(\w+))?`)
)

// patterns find what a line does with some variables.
type patterns struct {
	// mention is a use of one, assignment sets another one to the same value, index is an index of the contexts.
	mention, assignment, index *regexp.Regexp
}

func patternsOf(names []string, python bool) patterns {
	name := "(?:" + strings.Join(names, "|") + `)\b` // of letters, digits, _ and dots
	index := regexp.MustCompile(`(?:(?:^|[^\w\])?])\.|\)|\b` + name + `)\[([^\]]*)\]`)
	if python {
		return patterns{regexp.MustCompile(`(?:^|[^\w.])` + name), pythonAssignment, index}
	}
	expansion := `\$\{?` + name
	return patterns{regexp.MustCompile(`\b` + contextVariable + `\b|` + expansion), regexp.MustCompile(shellAssignment + expansion), index}
}

// line is a line of a script, with those that continue it.
type line struct {
	Place
	text string
}

// lines are those without comments. A line goes on after a backslash, a pipe, and within the quotes of a jq filter.
func (s Source) lines() (lines []line) {
	joined := 0
	for i, text := range strings.Split(string(s.Text), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(text), "#"):
			continue
		case joined > 0:
			lines[len(lines)-1].text += "\n" + text
		default:
			short := []rune(strings.TrimSpace(text))
			if len(short) > maxShown {
				short = append(short[:maxShown], '…')
			}
			column := len(text) - len(strings.TrimLeft(text, " \t")) + 1
			lines = append(lines, line{Place{s.Path, i + 1, column, string(short)}, text})
		}
		if joined++; joined > maxJoined || !continues(lines[len(lines)-1].text) {
			joined = 0
		}
	}
	return lines
}

func continues(text string) bool {
	text = strings.TrimRight(text, " \t\r")
	_, filter, isJQ := strings.Cut(text, "jq ")
	return strings.HasSuffix(text, `\`) || strings.HasSuffix(text, "|") || isJQ && strings.Count(filter, "'")%2 == 1
}
