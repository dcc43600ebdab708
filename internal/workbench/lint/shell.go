package lint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Check starts a program that checks the syntax of a file, and returns what it printed to stderr. The error tells that
// it found a mistake; found is false where there is no such program.
type Check func(ctx context.Context, program string, args ...string) (stderr []byte, found bool, err error)

var dialects = map[string]syntax.LangVariant{
	"sh": syntax.LangPOSIX, "dash": syntax.LangPOSIX, "ash": syntax.LangPOSIX, "busybox": syntax.LangPOSIX,
	"bash": syntax.LangBash, "mksh": syntax.LangMirBSDKorn, "ksh": syntax.LangMirBSDKorn, "zsh": syntax.LangZsh, "bats": syntax.LangBats,
}

// shell is the dialect of a script: that of its first line, or else of its extension.
func (s Source) shell() (name string, ok bool) {
	if program, isScript := s.interpreter(); isScript {
		name = program.name
	} else {
		name = strings.TrimPrefix(path.Ext(s.Path), ".")
	}
	_, ok = dialects[name]
	return name, ok
}

// Shell finds the first mistake in the syntax of a shell script. It finds nothing in other files.
func Shell(ctx context.Context, s Source, file string, check Check) []Finding {
	name, isShell := s.shell()
	if !isShell {
		return nil
	}
	dialect := dialects[name]
	err := parse(s, dialect)
	if err == nil {
		return carriageReturns(s)
	}
	line, column, message := describe(err)
	found := s.finding(line, column, Error, message, "")
	if dialect == syntax.LangPOSIX && parse(s, syntax.LangBash) == nil {
		found.Level, found.Hint = Warning, fmt.Sprintf("this is bash, but the first line says %s: write #!/usr/bin/env bash", name)
		return []Finding{found}
	}
	// The shell itself has the last word: our parser is stricter in a few places.
	if stderr, there, err := check(ctx, name, "-n", file); there && err == nil && len(stderr) == 0 {
		found.Level, found.Hint = Warning, name+" reads it nevertheless: look whether it means what you mean"
	}
	return []Finding{found}
}

func parse(s Source, dialect syntax.LangVariant) error {
	_, err := syntax.NewParser(syntax.Variant(dialect)).Parse(bytes.NewReader(s.Text), "")
	return err
}

func describe(err error) (line, column int, message string) {
	var parse syntax.ParseError
	var lang syntax.LangError
	switch {
	case errors.As(err, &parse):
		return int(parse.Pos.Line()), int(parse.Pos.Col()), parse.Text
	case errors.As(err, &lang):
		verb := "is"
		if strings.HasSuffix(lang.Feature, "s") {
			verb = "are"
		}
		var names []string
		for _, l := range lang.Langs {
			names = append(names, l.String())
		}
		slices.Sort(names)
		return int(lang.Pos.Line()), int(lang.Pos.Col()), fmt.Sprintf("%s %s not in this shell, but in %s", lang.Feature, verb, strings.Join(names, ", "))
	}
	return 0, 0, err.Error()
}

// carriageReturns warns of Windows line ends in a script whose first line has none.
func carriageReturns(s Source) []Finding {
	if bytes.HasSuffix(s.firstLine(), []byte("\r")) {
		return nil // the file cannot even be started
	}
	if at := bytes.Index(s.Text, []byte("\r\n")); at >= 0 {
		return []Finding{s.finding(1+bytes.Count(s.Text[:at], []byte("\n")), 0, Warning, "the line ends with a carriage return, which becomes a part of its last word",
			`convert the file: sed -i 's/\r$//' `+s.Path)}
	}
	return nil
}
