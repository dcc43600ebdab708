package lint

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// noChecker simulates a machine without other shells.
func noChecker(context.Context, string, ...string) ([]byte, bool, error) { return nil, false, nil }

func lines(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	return strings.TrimSpace(b.String())
}

func TestShell(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a.sh", "#!/bin/sh\nlocal x=1\n", ""},
		{"a", "#!/usr/bin/env -S bash -eu\na=(1 2)\n", ""},
		{"a", "#!/bin/dash\necho ${a[1]}\n", "a:2:9: warning: arrays are not in this shell, but in bash, mksh, zsh (this is bash, " +
			"but the first line says dash: write #!/usr/bin/env bash)"},
		{"common.sh", "a=(1 2)\n[[ a ]]\n", ""}, // no first line: which shell sources it is not known
		{"a", "#!/bin/mksh\necho ${a[1]}\n", ""},
		{"a", "#!/bin/bash\ncase x in\n", "a:2:1: error: `case` statement must end with `esac`"},
		{"a.py", "#!/usr/bin/env python3\ncase x in\n", ""},
		{"lib.bash", "f() {\n", "lib.bash:1:5: error: `{` must be followed by a statement list"},
		{"a", "#!/bin/bash\necho a\r\n",
			`a:2:7: warning: the line ends with a carriage return, which becomes a part of its last word (convert the file: sed -i 's/\r$//' a)`},
	} {
		got := lines(Shell(t.Context(), script.Source{Path: test.name, Text: []byte(test.text)}, "/"+test.name, noChecker))
		if got != test.want {
			t.Errorf("%q\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
}

// TestLibraries covers files that run in the shell of another script.
func TestLibraries(t *testing.T) {
	sourceOf := func(path, text string) script.Source { return script.Source{Path: path, Text: []byte(text)} }
	l := FindLibraries([]script.Source{
		sourceOf("hooks/a.sh", "#!/bin/bash\nsource /hooks/common/functions.sh\n. \"$(dirname \"$0\")/lib/own.sh\"\nsource relative.sh\nsource "+
			"\"$DIR\"\n. ${DIR}/x/*.sh\n"),
		sourceOf("hooks/b", "#!/bin/sh\nif true; then . \"${HOOKS}/common/functions.sh\"; fi\n"),
		sourceOf("hooks/c.py", "#!/usr/bin/env python3\nsource = 1\n"),
	})
	for _, test := range []struct{ name, by, shell string }{
		{"common/functions.sh", "hooks/a.sh hooks/b", "sh"},
		{"sub/lib/own.sh", "hooks/a.sh", "bash"},
		{"relative.sh", "hooks/a.sh", "bash"},
		{"functions.sh", "hooks/a.sh hooks/b", "sh"}, // if the directory itself is common
		{"other.sh", "", ""},
		{"x/some.sh", "", ""},
	} {
		if by, shell := l.Of(test.name); strings.Join(by, " ") != test.by || shell != test.shell {
			t.Errorf("%s is sourced by %q in %q", test.name, by, shell)
		}
	}
	here := func(path string) bool { return path == "/shell_lib.sh" }
	below := func(path string) bool { return path == "common/functions.sh" }
	if file, mount := l.Missing("hooks/a.sh", here, below); file != "/hooks/common/functions.sh" || mount != "/hooks" {
		t.Errorf("missing %q, %q", file, mount)
	}
	for _, missing := range []func(string) bool{here, below} {
		if file, _ := l.Missing("hooks/b", here, missing); file != "" {
			t.Errorf("missing %q", file)
		}
	}
	s := script.Source{Path: "common/functions.sh", Text: []byte("#!/bin/bash\na=(1)\n"), SourcedIn: "sh"}
	if got := lines(Shell(t.Context(), s, "/a", noChecker)); !strings.Contains(got,
		"the script that sources it runs in sh: write #!/usr/bin/env bash there") {
		t.Errorf("got %s", got)
	}
}

// TestShellDisagrees shows that the shell decides.
func TestShellDisagrees(t *testing.T) {
	accepts := func(_ context.Context, program string, args ...string) ([]byte, bool, error) {
		if program != "bash" || strings.Join(args, " ") != "-n /a" {
			t.Errorf("%s %q is not how bash checks a file", program, args)
		}
		return nil, true, nil
	}
	s := script.Source{Path: "a", Text: []byte("#!/bin/bash\nif\n")}
	if found := Shell(t.Context(), s, "/a", accepts); len(found) != 1 || found[0].Level != Warning {
		t.Errorf("bash accepts it, but: %s", lines(found))
	}
	refuses := func(context.Context, string, ...string) ([]byte, bool, error) { return nil, true, errors.New("2") }
	if found := Shell(t.Context(), s, "/a", refuses); len(found) != 1 || found[0].Level != Error {
		t.Errorf("bash refuses it too, but: %s", lines(found))
	}
}

// TestContexts checks what is reported about the contexts that a hook reads.
func TestContexts(t *testing.T) {
	pods := []hook.Kubernetes{{Added: true}}
	auto, one := hook.Settings{ContextsPerRun: 1, OneByOne: true}, hook.Settings{ContextsPerRun: 1}
	const (
		object = "#!/bin/sh\n# .[0]\nx=$(jq -r '.[0].object' \"$BINDING_CONTEXT_PATH\")\n"
		kind   = "#!/bin/sh\njq -r '.[0].type' \"$BINDING_CONTEXT_PATH\"\n"
		every  = "#!/bin/sh\njq -r '.[].object' \"$BINDING_CONTEXT_PATH\"\n"
	)
	for _, test := range []struct {
		name, text string
		hook       hook.Hook
		want       string
	}{
		{"runs once per context", object, hook.Hook{Kubernetes: pods, Settings: auto}, "a:3:1: note: runs once per context"},
		{"gets all", object, hook.Hook{Kubernetes: pods}, "a:3:1: warning: the hook reads only the first"},
		{"one by its own setting", object, hook.Hook{Kubernetes: pods, Settings: one}, ""},
		{"reads only the type", kind, hook.Hook{Kubernetes: pods}, "a:2:1: warning: the hook reads only the first"},
		{"reads also snapshots", kind + "jq '.[0].snapshots' \"$BINDING_CONTEXT_PATH\"\n", hook.Hook{Kubernetes: pods}, ""},
		{"runs at start-up only", object, hook.Hook{OnStartup: new(int)}, ""},
		{"reads all", every, hook.Hook{Kubernetes: pods}, ""},
		{"reads all as well", object + every, hook.Hook{Kubernetes: pods},
			"a:5:1: note: gets all contexts of a run: this line reads more than the first one"},
	} {
		s := script.Source{Path: "a", Text: []byte(test.text)}
		test.hook.Name = "a"
		if got := lines(Hook(s, &test.hook, script.Contexts(s))); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestPlace(t *testing.T) {
	const file = "#!/bin/sh\ncat <<EOF\n  a: 1\n  kind: Pod\n  b: 2\n  kind: Pod\nEOF\necho '{x: 1}'\n"
	for _, test := range []struct {
		output                         string
		line, column, atLine, atColumn int
	}{
		{"a: 1\nkind: Pod\nb: 2\nkind: Pod\n", 4, 1, 6, 3},
		{"a: 1\nkind: Pod\nb: 2\nkind: Pod\n", 2, 7, 4, 9},
		{"kind: Pod\n", 1, 1, 0, 0}, // which of the two?
		{"{x: 1}\n", 1, 2, 8, 8},
		{"something: else\n", 1, 1, 0, 0},
		{"a: 1\n", 0, 0, 0, 0},
	} {
		if l, c := Place(script.Source{Path: "a", Text: []byte(file)}, []byte(test.output), test.line, test.column); l != test.atLine ||
			c != test.atColumn {
			t.Errorf("%d:%d of %q is at %d:%d, not %d:%d", test.line, test.column, test.output, l, c, test.atLine, test.atColumn)
		}
	}
}

func TestDuplicates(t *testing.T) {
	step := hook.ConversionStep{From: "v1", To: "v2"}
	a := &hook.Hook{Name: "a",
		Conversions: []hook.Conversion{{CRDName: "x.example.com", Steps: []hook.ConversionStep{step, {From: "v2", To: "v3"}}}}}
	b := &hook.Hook{Name: "b", Conversions: []hook.Conversion{{CRDName: "x.example.com", Steps: []hook.ConversionStep{step}},
		{CRDName: "y.example.com", Steps: []hook.ConversionStep{step}}}}
	found := Duplicates([]*hook.Hook{a, b})
	if len(found) != 1 || len(found["b"]) != 1 || !strings.HasPrefix(found["b"][0].Message, `hook "a" also converts x.example.com `) {
		t.Errorf("found %v", found)
	}
}

func TestKeyOfSecrets(t *testing.T) {
	for _, test := range []struct {
		kind string
		key  hook.Key
		want string
	}{
		{"Secret", ".data.url", "a.sh: warning: the queue key of binding \"b\" is a value of Secrets, which the hook gets in HOOK_QUEUE_KEY; " +
			"elsewhere its hash is shown (use metadata, such as a label, as the key)"},
		{"Secret", hook.ByObject, ""}, {"Secret", "", ""}, {"ConfigMap", ".data.url", ""},
	} {
		h := &hook.Hook{Name: "a.sh",
			Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Kind: test.kind, Lanes: hook.Lanes{Key: test.key}}}}
		if got := lines(Hook(script.Source{Path: "a.sh"}, h, script.Reading{})); got != test.want {
			t.Errorf("%s by %q: got %s, want %s", test.kind, test.key, got, test.want)
		}
	}
}
