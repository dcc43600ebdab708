package script

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// literal is a word without expansions, as its command gets it.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				l, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar {
					return "", false
				}
				b.WriteString(unescape(l.Value, "$`\"\\"))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// substitutes reports a word with commands in it, which read the input of the command that gets the word.
func substitutes(w *syntax.Word) (found bool) {
	syntax.Walk(w, func(node syntax.Node) bool {
		switch node.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = true
		}
		return !found
	})
	return found
}

func isLiteral(w *syntax.Word) bool {
	_, ok := literal(w)
	return ok
}

// unescape removes the backslashes before some characters, or before all.
func unescape(text, some string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (some == "" || strings.IndexByte(some, text[i+1]) >= 0 || text[i+1] == '\n') {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// jqCall is a command line of jq.
type jqCall struct {
	filter  *syntax.Word
	files   []*syntax.Word
	noInput bool
}

// Options of jq that change only its output, without an argument, and those with arguments.
var (
	jqOutput = []string{"--raw-output", "--compact-output", "--exit-status", "--join-output", "--ascii-output", "--monochrome-output",
		"--color-output", "--sort-keys", "--tab", "--unbuffered", "--raw-output0"}
	jqArguments = map[string]int{"--arg": 2, "--argjson": 2, "--indent": 1}
)

// parseJQ returns false for options that may change what is read, such as --slurp and --from-file.
func parseJQ(args []*syntax.Word) (c jqCall, ok bool) {
	ok = true
	for i := 0; i < len(args); i++ {
		text, constant := literal(args[i])
		switch {
		case constant && len(text) > 1 && text[0] == '-':
			switch {
			case text == "--null-input":
				c.noInput = true
			case slices.Contains(jqOutput, text):
			case jqArguments[text] > 0:
				i += jqArguments[text]
			case strings.Trim(text[1:], "rcejaMCSn") == "":
				c.noInput = c.noInput || strings.Contains(text, "n")
			default:
				ok = false
			}
		case c.filter == nil:
			c.filter = args[i]
		default:
			c.files = append(c.files, args[i])
		}
	}
	return c, ok
}

// sourced is the path below the hooks directory of a file that a script sources by an absolute path or by that of the script. Name is
// the one of the script or library.
func (d Directory) sourced(by *syntax.File, word *syntax.Word, name string) (string, bool) {
	if text, ok := literal(word); ok {
		return strings.CutPrefix(path.Clean(text), strings.TrimSuffix(d.Path, "/")+"/")
	}
	var parts []syntax.WordPart
	for _, p := range word.Parts {
		if q, ok := p.(*syntax.DblQuoted); ok {
			parts = append(parts, q.Parts...)
		} else {
			parts = append(parts, p)
		}
	}
	if len(parts) < 2 {
		return "", false
	}
	variable, ok := scriptDir(by, parts[0], true)
	rest, constant := literal(&syntax.Word{Parts: parts[1:]})
	if !ok || !constant || !strings.HasPrefix(rest, "/") {
		return "", false
	}
	if variable == "0" {
		name = d.Name
	}
	return below(path.Join(path.Dir(name), rest))
}

func below(name string) (string, bool) {
	return name, name != ".." && !strings.HasPrefix(name, "../")
}

// scriptDir reports that an expansion is the directory of the script, or of the file that is sourced, by $0 or BASH_SOURCE. With
// follow it may be a variable that is set once.
func scriptDir(by *syntax.File, part syntax.WordPart, follow bool) (variable string, ok bool) {
	switch p := part.(type) {
	case *syntax.ParamExp:
		if isScript(p) {
			remove := p.Exp
			if remove == nil || remove.Op != syntax.RemSmallSuffix {
				return "", false
			}
			suffix, ok := literal(remove.Word)
			return p.Param.Value, ok && suffix == "/*"
		}
		if follow && isPlain(p) && p.Exp == nil {
			if w := onlyValue(by, p.Param.Value); w != nil {
				return scriptDirOf(by, w)
			}
		}
	case *syntax.CmdSubst:
		if len(p.Stmts) == 1 {
			return scriptDirOfStmt(by, p.Stmts[0])
		}
	}
	return "", false
}

// scriptDirOf is scriptDir for a word of one expansion.
func scriptDirOf(by *syntax.File, w *syntax.Word) (variable string, ok bool) {
	parts := w.Parts
	if len(parts) == 1 {
		if q, isQuoted := parts[0].(*syntax.DblQuoted); isQuoted {
			parts = q.Parts
		}
	}
	if len(parts) != 1 {
		return "", false
	}
	return scriptDir(by, parts[0], false)
}

// scriptDirOfStmt is dirname "$0", or cd "$(dirname "$0")" && pwd.
func scriptDirOfStmt(by *syntax.File, s *syntax.Stmt) (variable string, ok bool) {
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		cd, isCall := c.X.Cmd.(*syntax.CallExpr)
		pwd, isPwd := c.Y.Cmd.(*syntax.CallExpr)
		if c.Op == syntax.AndStmt && isCall && isPwd && len(cd.Args) == 2 && cd.Args[0].Lit() == "cd" && len(pwd.Args) > 0 && pwd.Args[0].Lit() == "pwd" {
			return scriptDirOf(by, cd.Args[1])
		}
	case *syntax.CallExpr:
		if len(c.Args) != 2 || c.Args[0].Lit() != "dirname" {
			return "", false
		}
		parts := c.Args[1].Parts
		if q, isQuoted := parts[0].(*syntax.DblQuoted); isQuoted && len(parts) == 1 {
			parts = q.Parts
		}
		if len(parts) == 1 {
			if p, isParam := parts[0].(*syntax.ParamExp); isParam && isScript(p) && p.Exp == nil {
				return p.Param.Value, true
			}
		}
	}
	return "", false
}

func isScript(p *syntax.ParamExp) bool {
	return p.Param != nil && (p.Param.Value == "0" || p.Param.Value == "BASH_SOURCE") && !p.Excl && !p.Length && p.Slice == nil && p.Repl == nil
}

// onlyValue is the value of a variable that is assigned once.
func onlyValue(by *syntax.File, name string) (w *syntax.Word) {
	n := 0
	syntax.Walk(by, func(node syntax.Node) bool {
		if a, ok := node.(*syntax.Assign); ok && a.Name != nil && a.Name.Value == name && !a.Naked {
			n++
			w = a.Value
		}
		return true
	})
	if n != 1 {
		return nil
	}
	return w
}
