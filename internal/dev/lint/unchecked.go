package lint

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/script"
)

// uncheckedKubectl finds the first kubectl whose failure a shell script does not notice: the run succeeds, and nothing is retried. A script
// that sources another one may have errexit from there.
func uncheckedKubectl(s script.Source) []Finding {
	_, dialect, isShell := s.Shell()
	if !isShell || s.SourcedIn != "" {
		return nil
	}
	file, err := s.Parse(dialect)
	if err != nil || endsOnErrors(s, file) {
		return nil
	}
	var at *syntax.Stmt
	check := func(list []*syntax.Stmt) {
		for i, stmt := range list {
			// The status of the last command is that of the list.
			if at == nil && i+1 < len(list) && !stmt.Negated && !stmt.Background && callsKubectl(stmt.Cmd) && !readsStatus(list[i+1]) {
				at = stmt
			}
		}
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.File:
			check(n.Stmts)
		case *syntax.Block:
			check(n.Stmts)
		case *syntax.Subshell:
			check(n.Stmts)
		case *syntax.IfClause:
			check(n.Then)
		case *syntax.WhileClause:
			check(n.Do)
		case *syntax.ForClause:
			check(n.Do)
		case *syntax.CaseItem:
			check(n.Stmts)
		}
		return at == nil
	})
	if at == nil {
		return nil
	}
	return []Finding{finding(s, int(at.Pos().Line()), int(at.Pos().Col()), Warning,
		"if this kubectl fails, the hook continues and the run may succeed: then nothing is retried",
		"begin with set -e, or end with the status of kubectl: || exit 1")}
}

// callsKubectl reports whether a command is kubectl, or assigns its output.
func callsKubectl(command syntax.Command) bool {
	call, ok := command.(*syntax.CallExpr)
	if !ok {
		return false
	}
	if len(call.Args) > 0 {
		return call.Args[0].Lit() == "kubectl"
	}
	for _, assign := range call.Assigns {
		if assign.Value == nil {
			continue
		}
		parts := assign.Value.Parts
		for i := 0; i < len(parts); i++ {
			switch p := parts[i].(type) {
			case *syntax.DblQuoted:
				parts = append(slices.Clone(parts), p.Parts...)
			case *syntax.CmdSubst:
				if n := len(p.Stmts); n > 0 && callsKubectl(p.Stmts[n-1].Cmd) {
					return true
				}
			}
		}
	}
	return false
}

// readsStatus reports whether a command reads $?.
func readsStatus(stmt *syntax.Stmt) (reads bool) {
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if p, ok := node.(*syntax.ParamExp); ok && p.Param != nil && p.Param.Value == "?" {
			reads = true
		}
		return !reads
	})
	return reads
}

// endsOnErrors reports whether a script sets errexit, or may get it from a file that it sources.
func endsOnErrors(s script.Source, file *syntax.File) (ends bool) {
	if words := strings.Fields(string(s.FirstLine())); strings.HasPrefix(string(s.FirstLine()), "#!") && len(words) > 0 {
		ends = slices.ContainsFunc(words[1:], func(word string) bool { return shortFlag(word, 'e') })
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return !ends
		}
		switch call.Args[0].Lit() {
		case ".", "source":
			ends = true
		case "set":
			for _, arg := range call.Args[1:] {
				ends = ends || arg.Lit() == "errexit" || shortFlag(arg.Lit(), 'e')
			}
		}
		return !ends
	})
	return ends
}

// shortFlag reports whether a word has a flag of one letter, alone or among others: -eu.
func shortFlag(word string, flag byte) bool {
	return len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.IndexByte(word, flag) > 0
}
