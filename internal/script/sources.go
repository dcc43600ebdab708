package script

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Sources returns the paths of the files that a script reads as its own code: those that a shell script sources, and the modules that a
// Python program imports. What a path begins with may be unknown: it ends like the file. A path that is wholly computed is not found.
func Sources(s Source) []string {
	if s.IsPython() {
		return imported(string(s.Text))
	}
	_, dialect, ok := s.Shell()
	if !ok {
		return nil
	}
	file, err := s.Parse(dialect)
	if err != nil {
		return nil
	}
	var paths []string
	syntax.Walk(file, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 1 {
			if program := call.Args[0].Lit(); program == "." || program == "source" {
				if p := literalEnd(call.Args[1]); p != "" {
					paths = append(paths, p)
				}
			}
		}
		return true
	})
	return paths
}

// literalEnd is a word, or what follows its last expansion.
func literalEnd(w *syntax.Word) (end string) {
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				end += unescape(p.Value)
			case *syntax.SglQuoted:
				end += p.Value
			case *syntax.DblQuoted:
				add(p.Parts)
			default:
				end = ""
			}
		}
	}
	add(w.Parts)
	return end
}

// unescape removes backslashes, and the line ends behind them.
func unescape(text string) string {
	return backslash.ReplaceAllStringFunc(text, func(escaped string) string { return strings.TrimPrefix(escaped[1:], "\n") })
}

var backslash = regexp.MustCompile(`(?s)\\.`)

var importStatement = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+\.*([\w.]*)[ \t]+import[ \t]+\(?([\w., \t]+)|import[ \t]+([\w., \t]+))`)

// imported are the files that the modules of import statements may be.
func imported(text string) (paths []string) {
	add := func(module string) {
		if file := strings.ReplaceAll(strings.Trim(module, "."), ".", "/"); file != "" {
			paths = append(paths, file+".py", file+"/__init__.py")
		}
	}
	for _, m := range importStatement.FindAllStringSubmatch(text, -1) {
		from, names := m[1], m[2]+m[3]
		if from != "" {
			add(from)
		}
		for name := range strings.SplitSeq(names, ",") {
			if fields := strings.Fields(name); len(fields) > 0 { // name [as other]
				add(from + "." + fields[0])
			}
		}
	}
	return paths
}
