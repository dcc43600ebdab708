package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// handlerKinds are the kinds of bindings by the word of the libraries: __on_schedule::NAME in bash, on_schedule("NAME") in Python.
var handlerKinds = map[string]hook.Kind{
	"kubernetes": hook.OnKubernetes, "schedule": hook.OnSchedule, "validating": hook.OnValidating, "mutating": hook.OnMutating,
	"conversion": hook.OnConversion, "http": hook.OnHTTP,
}

// handlerEvents are the ends that the name of a handler in bash may have.
var handlerEvents = map[string][]string{
	"kubernetes": {"synchronization", "added", "modified", "added_or_modified", "deleted", "deleting", "requeue"},
}

var (
	shellHandler  = regexp.MustCompile(`^__on_(kubernetes|schedule|group|validating|mutating|conversion|http)::(.+)$`)
	pythonHandler = regexp.MustCompile(`\.on_(kubernetes|schedule|group|validating|mutating|conversion|http)\(\s*(?:"([^"\\]*)"|'([^'\\]*)')`)
	// unnamed is what names of functions in bash do not have; the library writes _ in its place.
	unnamed = regexp.MustCompile("[\\s\\pC'\"`\\\\$;&|()<>]")
)

// handlers finds handlers of the libraries that no binding of the hook has: they are never called.
func handlers(s script.Source, h *hook.Hook) (found []Finding) {
	unknown := func(line, column int, kind, name string, known []string) {
		hint := fmt.Sprintf("the hook has no such binding under %s: remove the handler, or add the binding", handlerKinds[kind])
		if kind == "group" {
			hint = "no binding of the hook has this group"
		} else if len(known) > 0 {
			hint = fmt.Sprintf("its bindings under %s: %s", handlerKinds[kind], strings.Join(known, ", "))
		}
		found = append(found, finding(s, line, column, Warning, fmt.Sprintf("no binding is named %q: the handler is never called", name), hint))
	}
	if s.IsPython() && bytes.Contains(s.Text, []byte("shell_operator_hook")) {
		for _, m := range pythonHandler.FindAllSubmatchIndex(s.Text, -1) {
			kind, name := string(s.Text[m[2]:m[3]]), string(s.Text[max(m[4], m[6]):max(m[5], m[7])])
			if known := bindingNames(h, kind); !slices.Contains(known, name) {
				unknown(1+bytes.Count(s.Text[:m[0]], []byte("\n")), m[0]-bytes.LastIndexByte(s.Text[:m[0]], '\n'), kind, name, known)
			}
		}
		return found
	}
	_, dialect, isShell := s.Shell()
	if !isShell || !bytes.Contains(s.Text, []byte("hook::run")) {
		return nil
	}
	file, err := s.Parse(dialect)
	if err != nil {
		return nil
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		f, is := node.(*syntax.FuncDecl)
		if !is || f.Name == nil {
			return true
		}
		m := shellHandler.FindStringSubmatch(f.Name.Value)
		if m == nil {
			return true
		}
		kind, rest := m[1], m[2]
		known := bindingNames(h, kind)
		if !slices.ContainsFunc(known, func(name string) bool { return handles(kind, rest, unnamed.ReplaceAllString(name, "_")) }) {
			name, event, _ := strings.Cut(rest, "::")
			if slices.ContainsFunc(known, func(k string) bool { return unnamed.ReplaceAllString(k, "_") == name }) && kind == "kubernetes" {
				found = append(found, finding(s, int(f.Pos().Line()), int(f.Pos().Col()), Warning,
					fmt.Sprintf("no event is called %q: the handler is never called", event), "the events are "+strings.Join(handlerEvents[kind], ", ")))
				return true
			}
			unknown(int(f.Pos().Line()), int(f.Pos().Col()), kind, name, known)
		}
		return true
	})
	return found
}

// handles reports whether the rest of a handler's name is for a binding: its name, with an event or versions behind it.
func handles(kind, rest, name string) bool {
	after, ok := strings.CutPrefix(rest, name)
	event, separated := strings.CutPrefix(after, "::")
	return ok && (after == "" || separated && (kind == "conversion" || slices.Contains(handlerEvents[kind], event)))
}

// bindingNames are the names of a hook's bindings of a kind, or its groups.
func bindingNames(h *hook.Hook, kind string) (names []string) {
	for a, b := range h.Bindings() {
		switch {
		case kind == "group" && b.Group != "" && !slices.Contains(names, b.Group):
			names = append(names, b.Group)
		case kind != "group" && a.Kind == handlerKinds[kind]:
			names = append(names, b.Name)
		}
	}
	return names
}
