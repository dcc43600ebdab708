package script

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestContexts has scripts of many styles, with the line that decides.
func TestContexts(t *testing.T) {
	libraries := []Source{
		{Path: "lib/first.sh", Text: []byte(`object_name() { jq -r '.[0].object.metadata.name' "$BINDING_CONTEXT_PATH"; }`)},
		{Path: "lib/each.sh", Text: []byte(`each_context() { jq -c '.[]' "$BINDING_CONTEXT_PATH"; }`)},
	}
	golden.Wants(t, "testdata/contexts.txtar", func(t *testing.T, f txtar.File) string {
		s, sourced := Source{Path: f.Name, Text: f.Data}, []Source{}
		for _, path := range Sources(s) {
			for _, l := range libraries {
				if strings.HasSuffix(path, "/"+l.Path) {
					sourced = append(sourced, l)
				}
			}
		}
		r := Contexts(s, sourced...)
		if at, ok := r.OneByOne(); ok {
			return fmt.Sprintln("once per context:", text(at))
		}
		if !r.FirstOnly() {
			return fmt.Sprintln("all contexts:", text(r.Others))
		}
		return "all contexts\n"
	})
}

// TestCallsShellLibrary has the ways in which a hook calls the library.
func TestCallsShellLibrary(t *testing.T) {
	lib := Source{Path: "lib/each.sh", Text: []byte(`each() { hook::run "$@"; }`)}
	for _, test := range []struct {
		path, text string
		want       bool
	}{
		{"a.sh", "#!/usr/bin/env bash\nhook::run \"$@\"\n", true},
		{"a", "#!/bin/bash\nfor i in 0 1; do BINDING_CONTEXT_CURRENT_INDEX=$i context::get a; done\n", true},
		{"a.sh", "#!/bin/bash\n# hook::run\necho hook::running\n", false},
		{"a.sh", "#!/bin/bash\njq . \"$BINDING_CONTEXT_PATH\"\n", false},
		{"a.py", "#!/usr/bin/env python3\nprint('hook::run')\n", false},
		{"a", "\x7fELF\x00hook::run", false},
		{"a.sh", "", false},
	} {
		if got := CallsShellLibrary(Source{Path: test.path, Text: []byte(test.text)}); got != test.want {
			t.Errorf("%q: %t", test.text, got)
		}
	}
	if !CallsShellLibrary(Source{Path: "a.sh", Text: []byte("#!/bin/bash\n. lib/each.sh\neach \"$@\"\n")}, lib) {
		t.Error("a sourced file is not read")
	}
}

// TestStrangeScripts has texts that must not take long.
func TestStrangeScripts(t *testing.T) {
	var variables, quotes strings.Builder
	variables.WriteString("#!/bin/sh\nv0=$BINDING_CONTEXT_PATH\n")
	quotes.WriteString("#!/bin/sh\n")
	for i := range 10_000 {
		fmt.Fprintf(&variables, "v%d=$v%d\n", i+1, i)
		quotes.WriteString("jq '\n")
	}
	python := "#!/usr/bin/python3\nBINDING_CONTEXT_PATH = 1\n"
	for _, text := range []string{"", "#!/bin/sh", variables.String(), quotes.String(), python, "\x00\x01"} {
		if r := Contexts(Source{Path: "a", Text: []byte(text)}); len(r.Members) > 0 || !r.FirstOnly() {
			t.Errorf("%.40q: %+v", text, r)
		}
	}
}

// text is a place as compilers write it, with the line.
func text(p Place) string { return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Text) }
