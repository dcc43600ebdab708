package lint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Check starts a program that checks the syntax of a file, and returns its stderr. The error reports that the file is
// invalid; found is false where there is no such program.
type Check func(ctx context.Context, program string, args ...string) (stderr []byte, found bool, err error)

// Shell finds the first syntax error of a shell script. It finds nothing in other files.
func Shell(ctx context.Context, s script.Source, file string, check Check) []Finding {
	name, dialect, isShell := s.Shell()
	if !isShell {
		return nil
	}
	_, err := s.Parse(dialect)
	if err == nil {
		return carriageReturns(s)
	}
	line, column, message := describe(err)
	found := finding(s, line, column, Error, message, "")
	found.Code = SyntaxCode
	if dialect == syntax.LangPOSIX {
		if _, err := s.Parse(syntax.LangBash); err == nil {
			found.Level, found.Hint = Warning, writeBash(s, name)
			return []Finding{found}
		}
	}
	// The parser is stricter than the shells in a few places, so the shell decides.
	if stderr, there, err := check(ctx, name, "-n", file); there && err == nil && len(stderr) == 0 {
		found.Level, found.Hint = Warning, name+" accepts it nevertheless: check that it means what you intend"
	}
	return []Finding{found}
}

func writeBash(s script.Source, name string) string {
	if s.SourcedIn != "" {
		return fmt.Sprintf("this is bash, but the script that sources it runs in %s: write #!/usr/bin/env bash there", name)
	}
	return fmt.Sprintf("this is bash, but the first line says %s: write #!/usr/bin/env bash", name)
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
		return int(lang.Pos.Line()), int(lang.Pos.Col()), fmt.Sprintf("%s %s not in this shell, but in %s", lang.Feature, verb,
			strings.Join(names, ", "))
	}
	return 0, 0, err.Error()
}

// carriageReturns warns of Windows line ends in a script.
func carriageReturns(s script.Source) []Finding {
	if at := bytes.Index(s.Text, []byte("\r\n")); at >= 0 {
		return []Finding{finding(s, 1+bytes.Count(s.Text[:at], []byte("\n")), at-bytes.LastIndexByte(s.Text[:at], '\n'), Warning,
			"the line ends with a carriage return, which becomes a part of its last word",
			`convert the file: sed -i 's/\r$//' `+s.Path)}
	}
	return nil
}
