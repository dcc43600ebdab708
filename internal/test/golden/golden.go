// Package golden compares what tests get with files that a user could read. Only tests use it.
//
// Callers may rely on this:
//   - With the flag -update the files are rewritten, and no test fails: the difference is to be reviewed like code.
//   - A pattern that fits no file fails the test, so that no test checks nothing.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// Update reports whether expectations are to be rewritten, for tests with their own file format.
func Update() bool { return *update }

// Compare fails the test if the file is not what the test has got, or rewrites it.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	switch {
	case err == nil && string(want) == got:
	case *update:
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Fatalf("%v (-update writes it)", err)
	default:
		differs(t, path, got, string(want))
	}
}

func differs(t testing.TB, name, got, want string) {
	t.Helper()
	t.Errorf("-update accepts this:\n%s", diff.Diff(name, []byte(want), "got", []byte(got)))
}

// Files are those that fit a pattern.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file is like %s: %v", pattern, err)
	}
	return files
}

// Scripts runs a test for each file that fits the pattern. A script has what is to be done and what comes of it; play
// does it, and returns the script with what has really come of it.
func Scripts(t *testing.T, pattern string, play func(t *testing.T, script string) string) {
	t.Helper()
	for _, path := range Files(t, pattern) {
		t.Run(name(path), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			Compare(t, path, play(t, string(script)))
		})
	}
}

// Blocks runs a script whose blocks have an empty line between them: commands, and below dashes their outcome. Do
// carries out one command, given as words; happened returns the outcome of the block, in whole lines. A line that
// begins with the word # is a comment.
func Blocks(script string, do func(words []string), happened func() string) string {
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(script), "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		commands, _, hasOutcome := strings.Cut(block+"\n", "----\n")
		out.WriteString(commands)
		for line := range strings.Lines(commands) {
			if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
				do(words)
			}
		}
		if outcome := happened(); hasOutcome || outcome != "" {
			out.WriteString("----\n" + outcome)
		}
	}
	return out.String()
}

// Archives is Scripts for scripts that are txtar archives, which play may change.
func Archives(t *testing.T, pattern string, play func(t *testing.T, script *txtar.Archive) *txtar.Archive) {
	t.Helper()
	Scripts(t, pattern, func(t *testing.T, script string) string {
		return string(txtar.Format(play(t, txtar.Parse([]byte(script)))))
	})
}

// Wants runs a test for each file in each archive that matches the pattern: a file NAME is followed by NAME.want, its
// expected outcome.
func Wants(t *testing.T, pattern string, outcome func(t *testing.T, f txtar.File) string) {
	t.Helper()
	for _, path := range Files(t, pattern) {
		t.Run(name(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wants := map[string]string{}
			for _, f := range archive.Files {
				wants[f.Name] = string(f.Data)
			}
			updated := &txtar.Archive{Comment: archive.Comment}
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".want") {
					continue
				}
				t.Run(f.Name, func(t *testing.T) {
					got := outcome(t, f)
					updated.Files = append(updated.Files, f, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
					if want := wants[f.Name+".want"]; got != want && !*update {
						differs(t, path+": "+f.Name, got, want)
					}
				})
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(updated), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func name(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}
