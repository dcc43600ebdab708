package jq_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
)

func apply(t *testing.T, c *jq.Compiler, program, input string) (string, error) {
	t.Helper()
	f, err := c.Compile(program)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	v, err := jq.Decode([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Apply(context.Background(), v)
	return string(out), err
}

func TestApply(t *testing.T) {
	for _, tt := range []struct{ name, program, input, want, wantErr string }{
		{name: "one output", program: ".a", input: `{"a":{"z":1,"b":"x"}}`, want: `{"b":"x","z":1}`},
		{name: "one null", program: ".a", input: `{}`, want: `null`},
		{name: "no output", program: "empty", input: `{}`, want: `null`},
		{name: "several outputs", program: ".[]", input: `[1,"x",null]`, want: `[1,"x",null]`},
		{name: "one output of an iteration", program: ".[]", input: `["x"]`, want: `"x"`},
		{name: "integers beyond 2^53", program: ".n", input: `{"n":9007199254740993}`, want: `9007199254740993`},
		{name: "number text is kept", program: ".n", input: `{"n":1.0}`, want: `1.0`},
		{name: "halt keeps what came before", program: "1, halt, 2", input: `null`, want: `1`},
		{name: "empty environment", program: "[env, $ENV]", input: `null`, want: `[{},{}]`},
		{name: "error", program: `error("no")`, input: `null`, wantErr: "no"},
		{name: "error discards what came before", program: `1, error("no")`, input: `null`, wantErr: "no"},
		{name: "halt_error", program: `"no" | halt_error`, input: `null`, wantErr: "no"},
		{name: "type error", program: ".a.b", input: `{"a":"text"}`, wantErr: "expected an object"},
		{name: "nan", program: "[nan]", input: `null`, wantErr: "cannot express"},
		{name: "infinite", program: "{a: infinite}", input: `null`, wantErr: "cannot express"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := apply(t, jq.NewCompiler(jq.Options{}), tt.program, tt.input)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, error %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestEndlessFilterEnds(t *testing.T) {
	c := jq.NewCompiler(jq.Options{Timeout: 20 * time.Millisecond})
	if _, err := apply(t, c, "def f: f; f", `null`); err == nil || !strings.Contains(err.Error(), "longer than 20ms") {
		t.Errorf("error %v", err)
	}
	c = jq.NewCompiler(jq.Options{Timeout: test.Patience})
	if _, err := apply(t, c, "repeat(1)", `null`); err == nil || !strings.Contains(err.Error(), "outputs") {
		t.Errorf("error %v", err)
	}
}

func TestCompileErrors(t *testing.T) {
	c := jq.NewCompiler(jq.Options{})
	for program, want := range map[string]string{
		".a |":                  "line 1",
		"nosuch(1)":             "nosuch/1",
		`import "m" as m; m::f`: "--jq-library-path",
		"input":                 "input",
	} {
		if _, err := c.Compile(program); err == nil || !strings.Contains(err.Error(), want) {
			if program == "input" && err == nil {
				continue // compiles, and fails when applied
			}
			t.Errorf("%s: error %v, want one with %q", program, err, want)
		}
	}
}

func TestCompiledOnce(t *testing.T) {
	c := jq.NewCompiler(jq.Options{})
	a, _ := c.Compile(".a")
	b, _ := c.Compile(".a")
	if a != b {
		t.Error("the same text was compiled twice")
	}
}

func TestModules(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.jq"), []byte("def double: . * 2;"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := apply(t, jq.NewCompiler(jq.Options{LibraryPath: []string{dir}}), `import "m" as m; .n | m::double`, `{"n":21}`)
	if err != nil || got != "42" {
		t.Errorf("got %s, error %v", got, err)
	}
}

func TestFiltersDoNotChangeTheirInput(t *testing.T) {
	v, err := jq.Decode([]byte(`{"a":{"b":[3,1,2]},"n":1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	c := jq.NewCompiler(jq.Options{})
	for _, program := range []string{".a.b |= sort", "del(.a)", ".n += 1", "."} {
		f, err := c.Compile(program)
		if err != nil {
			t.Fatal(err)
		}
		last, err := f.Apply(context.Background(), v)
		if err != nil {
			t.Fatal(err)
		}
		if program == "." && string(last) != `{"a":{"b":[3,1,2]},"n":1.0}` {
			t.Errorf("the input is now %s", last)
		}
	}
}
