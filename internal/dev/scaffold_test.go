package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/test"
)

// atWork returns options with the programs of this machine and those that make tools has built.
func atWork(dir string) Options {
	tools := filepath.Join(test.Root(), "bin", "tools")
	env := append(os.Environ(), "PATH="+tools+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return Options{HooksDir: dir, Env: env, ConfigTimeout: test.Patience, HookTimeout: test.Patience}
}

// need skips a test if a program is missing.
func need(t *testing.T, o Options, program string) {
	t.Helper()
	if lookUp(program, process.Variable(o.Env, "PATH")) == "" {
		t.Skipf("needs %s", program)
	}
}

// check runs lint --strict and test on a directory of hooks.
func check(t *testing.T, o Options, cases int) {
	t.Helper()
	report, err := Lint(t.Context(), o, LintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Level != lint.Note {
			t.Errorf("lint: %+v", f)
		}
	}
	tests, err := Test(t.Context(), o, TestOptions{Paths: []string{o.HooksDir}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range tests.Cases {
		for _, f := range c.Failures {
			t.Errorf("%s: %s: %s\n%s", c.File, c.Name, f.Message, strings.Join(c.Stderr, "\n"))
		}
	}
	if len(tests.Cases) != cases {
		t.Errorf("%d cases, not %d", len(tests.Cases), cases)
	}
}

var casesOf = map[string]int{"kubernetes": 3, "validating": 2, "schedule": 1, "startup": 1, "mutating": 1, "conversion": 1, "http": 1}

// TestScaffolds writes a hook of each language and type, which passes lint --strict and its tests as it is.
func TestScaffolds(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			need(t, atWork(""), l.needs)
			if testing.Short() && l.name != languages[0].name {
				t.Skip("starts many processes, which -short leaves out")
			}
			all(t, bindingTypes, func(dir, binding string) InitOptions {
				return InitOptions{File: filepath.Join(dir, "a-hook-"+binding+l.extension), Binding: binding}
			})
		})
	}
}

// TestReconcile writes a hook for a custom resource in each of its languages, with and without workers, and no hook in others.
func TestReconcile(t *testing.T) {
	for _, l := range languages {
		o := InitOptions{File: filepath.Join(t.TempDir(), "hooks", "a b"+l.extension), Reconcile: true, Kind: "a.example.com/v1/On"}
		if l.name != "sh" && l.name != "python" {
			if _, err := Init(o); err == nil {
				t.Errorf("%s has a hook", l.name)
			}
			continue
		}
		for _, worker := range []bool{false, l.worker} {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				at, o := atWork(filepath.Join(t.TempDir(), "hooks")), o
				need(t, at, l.needs)
				at.Workers, o.Worker, o.File = true, worker, filepath.Join(at.HooksDir, "a b"+l.extension)
				done, err := Init(o)
				if err != nil {
					t.Fatal(err)
				}
				check(t, at, 2)
				role := done.Paths[len(done.Paths)-1]
				report, err := Test(t.Context(), at, TestOptions{Paths: []string{at.HooksDir}, Role: role, Namespace: "shell-operator"})
				if err != nil || report.Failed > 0 || len(report.Cases) != 2 {
					t.Errorf("as the role that is written: %+v, %v", report, err)
				}
			})
		}
	}
}

// TestScaffoldsWithWorkers does the same with workers, of which hooks in other languages have none.
func TestScaffoldsWithWorkers(t *testing.T) {
	for _, l := range languages {
		file := "a-hook" + l.extension
		if !l.worker {
			if _, err := Init(InitOptions{File: filepath.Join(t.TempDir(), file), Worker: true}); err == nil {
				t.Errorf("%s has workers", l.name)
			}
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			need(t, atWork(""), l.needs)
			if testing.Short() {
				t.Skip("starts many processes, which -short leaves out")
			}
			all(t, bindingTypes, func(dir, binding string) InitOptions {
				return InitOptions{File: filepath.Join(dir, binding+"-"+file), Binding: binding, Worker: true}
			})
		})
	}
}

// TestScaffoldNames has files and kinds whose names are special in YAML, in a shell or in Kubernetes.
func TestScaffoldNames(t *testing.T) {
	need(t, atWork(""), "jq")
	for _, name := range []string{
		"a: b", "a #b", `it's "quoted"`, "{a, b}", "yes", "123", "Ü", "UPPER.case", "$(b)$HOME", strings.Repeat("long-", 30),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all(t, []string{"mutating", "http"}, func(dir, binding string) InitOptions {
				return InitOptions{File: filepath.Join(dir, binding, name+".sh"), Binding: binding}
			})
		})
	}
	for _, kind := range []string{"example.com/v1/On", "a.b.c/v2/HTTPRoute", "Node"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			all(t, []string{"kubernetes", "validating"}, func(dir, binding string) InitOptions {
				return InitOptions{File: filepath.Join(dir, binding+".bash"), Binding: binding, Kind: kind}
			})
		})
	}
}

// all writes and checks a hook of each binding.
func all(t *testing.T, bindings []string, options func(dir, binding string) InitOptions) {
	t.Helper()
	o := atWork(t.TempDir())
	o.Workers = true
	cases := 0
	for _, binding := range bindings {
		if _, err := Init(options(o.HooksDir, binding)); err != nil {
			t.Fatal(err)
		}
		cases += casesOf[binding]
	}
	check(t, o, cases)
}

// TestInitRefused has what would be invalid.
func TestInitRefused(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{
		"example.com/v1/", "example.com/v1/a b", "Example_com/v1/Widget", "example.com/1/Widget", "v1/Widget", "a/b/c/d", "core/Pod", "v2/Pod",
		"apps/V1/Deployment", "apps/ v1/Deployment",
	} {
		if _, err := Init(InitOptions{File: filepath.Join(dir, "refused.sh"), Kind: kind}); err == nil {
			t.Errorf("%q is accepted", kind)
		}
	}
	for _, file := range []string{".hidden.sh", "a.md", "a.yaml", ".sh"} {
		if _, err := Init(InitOptions{File: filepath.Join(dir, file)}); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}

// TestInitMissing names a program that the hook needs.
func TestInitMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	for file, want := range map[string]string{"": "jq", "x.py": "python3"} {
		done, err := Init(InitOptions{File: file, Path: "/nowhere"})
		if err != nil || done.Missing != want {
			t.Errorf("%q: it needs %q, not %q, %v", file, done.Missing, want, err)
		}
	}
}
