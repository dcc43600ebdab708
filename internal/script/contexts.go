package script

import (
	"fmt"
	"slices"
	"strings"
)

// Reading is what the text of a script shows about its binding contexts.
type Reading struct {
	// Doubt is the first place from which on the script may read more than the first context, and Why is the reason. Without a
	// doubt it provably reads no other one.
	Doubt Place
	Why   string
	// Members are what it reads of the first context.
	Members []Member
}

// Member is one place where a script reads a member of its first context.
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

// String is the place as compilers write it, with the line.
func (p Place) String() string { return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Text) }

// eventData are the members that differ between the contexts of one run.
var eventData = []string{"object", "objects", "deleting", "filterResult", "watchEvent"}

// EventData returns the first place that reads event data of the first context.
func (r Reading) EventData() (at Place, ok bool) {
	i := slices.IndexFunc(r.Members, func(m Member) bool { return slices.Contains(eventData, m.Name) })
	if i < 0 {
		return Place{}, false
	}
	return r.Members[i].Place, true
}

// FirstOnly reports that the script provably reads no other context than the first one.
func (r Reading) FirstOnly() bool { return r.Why == "" }

// OneByOne returns the place that decides that the script must be run once per context: it reads event data of the first
// context, and provably nothing of the others.
func (r Reading) OneByOne() (at Place, ok bool) {
	at, ok = r.EventData()
	return at, ok && r.FirstOnly()
}

// Reads reports whether the script reads a member of the first context.
func (r Reading) Reads(member string) bool {
	return slices.ContainsFunc(r.Members, func(m Member) bool { return m.Name == member })
}

// Directory is where the files that a script sources are.
type Directory struct {
	// Path is the absolute path of the hooks directory, as scripts write it. Name is the path of the script below it.
	Path, Name string
	// Read returns a file by its path below the directory.
	Read func(name string) (text []byte, ok bool)
}

// Contexts returns what a script reads of its binding contexts. It is conservative: what it does not understand is a doubt.
func Contexts(s Source, dir Directory) Reading {
	if _, dialect, isShell := s.Shell(); isShell {
		return readsOfShell(s, dialect, dir)
	}
	if s.IsPython() && !s.IsBinary() {
		return readsOfPython(s)
	}
	return Reading{Why: "it is neither a shell script nor a Python script"}
}

func (s Source) place(line int) Place {
	lines := strings.SplitN(string(s.Text), "\n", line+1)
	if line < 1 || line > len(lines) {
		return Place{Path: s.Path, Line: line}
	}
	const most = 120
	column := len(lines[line-1]) - len(strings.TrimLeft(lines[line-1], " \t")) + 1
	text := []rune(strings.TrimSpace(lines[line-1]))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return Place{s.Path, line, column, string(text)}
}
