// Package lint finds mistakes in hooks that can be found without running them on events.
//
// Callers may rely on this:
//   - A finding has the place to fix, as far as it is known, and a hint.
//   - Errors are certain: the operator would not start, or the hook would fail. What is only likely is a warning.
//   - Nothing here reads files or starts processes; what that takes is handed in.
//
// Configurations are checked by the code that the operator reads them with. This package only finds their place in the
// hook's file.
package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Level is the severity of a finding.
type Level int

const (
	// Note is what the operator does with a file.
	Note Level = iota
	// Warning is probably a mistake.
	Warning
	// Error is one.
	Error
)

func (l Level) String() string { return [...]string{"note", "warning", "error"}[l] }

// MarshalText returns the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is a note or a problem of a file.
type Finding struct {
	Path string `json:"path"`
	// Line and Column count from 1; 0 means the file as a whole.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	// Hint is the next step; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Code names the kind of problem, whatever its message. The page of errors lists the codes; notes have none.
	Code string `json:"code,omitempty"`
}

// SyntaxCode is the code of messages of parsers of hooks, which are not ours.
const SyntaxCode = "syntax"

func finding(s script.Source, line, column int, level Level, message, hint string) Finding {
	return Finding{Path: s.Path, Line: line, Column: column, Level: level, Message: message, Hint: hint}
}

// String is the form of compilers, which editors understand.
func (f Finding) String() string {
	text := f.Path + ":"
	if f.Line > 0 {
		text += fmt.Sprintf("%d:", f.Line)
		if f.Column > 0 {
			text += fmt.Sprintf("%d:", f.Column)
		}
	}
	return text + " " + f.Level.String() + ": " + f.Text()
}

// Text is the message with its hint.
func (f Finding) Text() string {
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + " (" + f.Hint + ")"
}

// Sort orders findings by file and place.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
