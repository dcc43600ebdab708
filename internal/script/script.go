// Package script reads the text of hooks: the program that runs a script, its syntax, and what it reads of its binding contexts.
//
// Callers may rely on this:
//   - Nothing here reads files or starts processes; what that takes is handed in.
//   - Contexts is a search of lines, which users can repeat by eye. It does not analyse what commands do.
package script

import (
	"bytes"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Source is the text of a file.
type Source struct {
	// Path is the name for messages.
	Path string
	Text []byte
	// SourcedIn is the shell of the scripts that source the file; empty if there are none.
	SourcedIn string
}

// interpreter is the name of the program that reads a script, by the first line; false means that there is no #!.
func (s Source) interpreter() (name string, isScript bool) {
	line, _, _ := bytes.Cut(s.Text, []byte("\n"))
	if line, isScript = bytes.CutPrefix(line, []byte("#!")); !isScript {
		return "", false
	}
	for i, word := range strings.Fields(string(line)) {
		if name = path.Base(word); name != "env" && (i == 0 || !strings.HasPrefix(word, "-") && !strings.Contains(word, "=")) {
			break
		}
	}
	return name, true
}

// IsBinary reports whether the file begins like a program that needs no interpreter.
func (s Source) IsBinary() bool {
	return bytes.IndexByte(s.Text[:min(len(s.Text), 512)], 0) >= 0
}

// LooksLikeHook reports whether a file that cannot be executed is probably meant to be a hook.
func (s Source) LooksLikeHook() bool {
	_, isScript := s.interpreter()
	for _, sign := range []string{"--config", "__config__", "configVersion", "BINDING_CONTEXT_PATH"} {
		if isScript && bytes.Contains(s.Text, []byte(sign)) {
			return true
		}
	}
	return false
}

var dialects = map[string]syntax.LangVariant{
	"sh": syntax.LangPOSIX, "dash": syntax.LangPOSIX, "ash": syntax.LangPOSIX, "busybox": syntax.LangPOSIX,
	"bash": syntax.LangBash, "mksh": syntax.LangMirBSDKorn, "ksh": syntax.LangMirBSDKorn, "zsh": syntax.LangZsh, "bats": syntax.LangBats,
}

// Shell is the shell that runs a script: the one that sources it, or is in its first line, or else fits its extension. The
// extension sh names no shell, so such a file may use what bash has.
func (s Source) Shell() (name string, dialect syntax.LangVariant, ok bool) {
	program, isScript := s.interpreter()
	switch {
	case s.SourcedIn != "":
		name = s.SourcedIn
	case isScript:
		name = program
	case path.Ext(s.Path) == ".sh":
		name = "bash"
	default:
		name = strings.TrimPrefix(path.Ext(s.Path), ".")
	}
	dialect, ok = dialects[name]
	return name, dialect, ok
}

// IsPosix reports whether a shell promises no more than the standard.
func IsPosix(shell string) bool { return dialects[shell] == syntax.LangPOSIX }

// IsPython reports whether Python 3 runs a file.
func (s Source) IsPython() bool {
	if program, isScript := s.interpreter(); isScript {
		return strings.HasPrefix(program, "python") && !strings.HasPrefix(program, "python2")
	}
	return path.Ext(s.Path) == ".py"
}

// Parse parses a shell script.
func (s Source) Parse(dialect syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(dialect)).Parse(bytes.NewReader(s.Text), "")
}
