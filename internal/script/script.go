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

// Interpreter is the first line of a script: the program that runs it.
type Interpreter struct {
	// Path is what the kernel starts, Name the program that reads the script: for "#!/usr/bin/env bash" they are
	// "/usr/bin/env" and "bash".
	Path, Name string
	// ViaEnv reports that env looks up Name in PATH.
	ViaEnv bool
}

// Interpreter parses the first line; false means that there is no #!.
func (s Source) Interpreter() (Interpreter, bool) {
	line, isScript := bytes.CutPrefix(s.FirstLine(), []byte("#!"))
	if !isScript {
		return Interpreter{}, false
	}
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return Interpreter{}, true
	}
	i := Interpreter{Path: words[0], Name: path.Base(words[0])}
	if i.Name != "env" {
		return i, true
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			i.Name, i.ViaEnv = path.Base(word), word == path.Base(word)
			break
		}
	}
	return i, true
}

// FirstLine is the first line without its end.
func (s Source) FirstLine() []byte {
	line, _, _ := bytes.Cut(s.Text, []byte("\n"))
	return line
}

// ByteOrderMark begins files of some editors; the kernel does not see #! behind it.
const ByteOrderMark = "\xef\xbb\xbf"

// IsBinary reports whether the file begins like a program that needs no interpreter.
func (s Source) IsBinary() bool {
	return bytes.IndexByte(s.Text[:min(len(s.Text), 512)], 0) >= 0
}

// LooksLikeHook reports whether a file that cannot be executed is probably meant to be a hook.
func (s Source) LooksLikeHook() bool {
	_, isScript := s.Interpreter()
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

// Shell is the shell that runs a script: the one that sources it, that of its first line, or else that of its extension. The
// extension sh names no shell, so such a file may use what bash has.
func (s Source) Shell() (name string, dialect syntax.LangVariant, ok bool) {
	program, isScript := s.Interpreter()
	switch {
	case s.SourcedIn != "":
		name = s.SourcedIn
	case isScript:
		name = program.Name
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
	if program, isScript := s.Interpreter(); isScript {
		return strings.HasPrefix(program.Name, "python") && !strings.HasPrefix(program.Name, "python2")
	}
	return path.Ext(s.Path) == ".py"
}

// Parse parses a shell script.
func (s Source) Parse(dialect syntax.LangVariant) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(dialect)).Parse(bytes.NewReader(s.Text), "")
}
