package lint

import (
	"bytes"
	"path"
	"strings"
)

// Source is the text of a file.
type Source struct {
	// Path is the name for findings.
	Path string
	Text []byte
	// SourcedIn is the shell of the scripts that source the file; empty if there are none.
	SourcedIn string
}

// interpreter is the first line of a script: the program that runs it.
type interpreter struct {
	// path is what the kernel starts, name the program that reads the script: for "#!/usr/bin/env bash" they are
	// "/usr/bin/env" and "bash".
	path, name string
	// viaEnv reports that env looks up name in PATH.
	viaEnv bool
}

// interpreter parses the first line; false means that there is no #!.
func (s Source) interpreter() (interpreter, bool) {
	line, isScript := bytes.CutPrefix(s.firstLine(), []byte("#!"))
	if !isScript {
		return interpreter{}, false
	}
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return interpreter{}, true
	}
	i := interpreter{path: words[0], name: path.Base(words[0])}
	if i.name != "env" {
		return i, true
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			i.name, i.viaEnv = path.Base(word), word == path.Base(word)
			break
		}
	}
	return i, true
}

func (s Source) firstLine() []byte {
	line, _, _ := bytes.Cut(s.Text, []byte("\n"))
	return line
}

// isBinary reports whether the file begins like a program that needs no interpreter.
func (s Source) isBinary() bool {
	return bytes.IndexByte(s.Text[:min(len(s.Text), 512)], 0) >= 0
}

func (s Source) finding(line, column int, level Level, message, hint string) Finding {
	return Finding{Path: s.Path, Line: line, Column: column, Level: level, Message: message, Hint: hint}
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
