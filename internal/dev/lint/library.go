package lint

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Libraries are the files that shell scripts source.
type Libraries struct{ sourced []sourced }

// sourced is one command that sources a file.
type sourced struct {
	// by is the path of the script for findings, shell the shell that runs it.
	by, shell string
	// end is the literal end of the path, from a slash on. What is before it is an expansion, unless whole is set: then it is an
	// absolute path.
	end   string
	whole bool
}

// FindLibraries collects what scripts source.
func FindLibraries(scripts []script.Source) Libraries {
	var l Libraries
	for _, s := range scripts {
		shell, _, isShell := s.Shell()
		if !isShell {
			continue
		}
		file, err := s.Parse(syntax.LangBash)
		if err != nil {
			continue
		}
		syntax.Walk(file, func(node syntax.Node) bool {
			call, isCall := node.(*syntax.CallExpr)
			if isCall && len(call.Args) > 1 && slices.Contains([]string{".", "source"}, call.Args[0].Lit()) {
				if end, whole := literalEnd(call.Args[1].Parts); end != "" {
					l.sourced = append(l.sourced, sourced{s.Path, shell, end, whole})
				}
			}
			return true
		})
	}
	return l
}

// literalEnd is the end of a word that no expansion can change. Without a slash before it, it is a file name.
func literalEnd(parts []syntax.WordPart) (end string, whole bool) {
	whole = true
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			end += p.Value
		case *syntax.SglQuoted:
			end += p.Value
		case *syntax.DblQuoted:
			inner, literal := literalEnd(p.Parts)
			if literal {
				end += inner
			} else {
				end, whole = inner, false
			}
		default:
			end, whole = "", false
		}
	}
	if strings.ContainsAny(end, "*?[") {
		return "", false
	}
	if whole {
		return end, strings.HasPrefix(end, "/")
	}
	if at := strings.Index(end, "/"); at >= 0 {
		return path.Clean(end[at:]), false
	}
	return "", false
}

// Of returns the scripts that source a file, by its path below the hooks directory, and the strictest of their shells.
func (l Libraries) Of(name string) (by []string, shell string) {
	for _, s := range l.sourced {
		file, end := "/"+name, path.Clean("/"+s.end)
		if !strings.HasSuffix(file, end) && !(s.whole && strings.HasSuffix(end, file)) {
			continue
		}
		if !slices.Contains(by, s.by) {
			by = append(by, s.by)
		}
		if shell == "" || script.IsPosix(s.shell) {
			shell = s.shell
		}
	}
	return by, shell
}

// Missing returns an absolute path that a script sources and that does not exist here, although its end exists below the hooks
// directory: in the image the directory is at mount.
func (l Libraries) Missing(hook string, here, below func(path string) bool) (file, mount string) {
	for _, s := range l.sourced {
		if s.by != hook || !s.whole || here(s.end) {
			continue
		}
		for at := strings.Index(s.end[1:], "/") + 1; at > 0; {
			if below(s.end[at+1:]) {
				return s.end, s.end[:at]
			}
			next := strings.Index(s.end[at+1:], "/")
			if next < 0 {
				break
			}
			at += next + 1
		}
	}
	return "", ""
}
