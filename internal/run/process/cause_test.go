package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/sdk"
)

// The cause of each failure in testdata/causes: a script, and the line that a person would read.
func TestCauses(t *testing.T) {
	files, err := filepath.Glob("testdata/causes/*.txtar")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	dir := t.TempDir()
	lib, err := sdk.UnpackShell(filepath.Join(dir, "lib"))
	must(t, err)
	python, err := filepath.Abs("../../../sdk/python")
	must(t, err)
	context1 := filepath.Join(dir, "context.json")
	const contexts = `[{"binding":"cms","type":"Event","watchEvent":"Added","object":{"metadata":{"name":"a"}}}]`
	must(t, os.WriteFile(context1, []byte(contexts), 0o600))
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		must(t, err)
		for script := range len(a.Files) / 2 {
			name, want := a.Files[2*script].Name, strings.TrimSpace(string(a.Files[2*script+1].Data))
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				t.Parallel()
				hook := "shop/" + name
				path, known := filepath.Join(dir, file, hook), filepath.Join(t.TempDir(), "failure")
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, a.Files[2*script].Data, 0o700))
				var out bytes.Buffer
				_, err := New(Options{}).Execute(context.Background(), Invocation{
					Hook: hook, Path: path, Dir: filepath.Dir(path), Env: append(os.Environ(), "SHELL_LIB="+lib, "PYTHONPATH="+python),
					Vars:   []string{"HOOK_NAME=" + hook, "RUN_FAILURE_PATH=" + known, "BINDING_CONTEXT_PATH=" + context1, "LC_ALL=C.UTF-8"},
					Stdout: func([]byte) {}, Stderr: func(line []byte) { out.Write(append(line, '\n')) },
				})
				exit, ok := errors.AsType[*ExitError](err)
				if !ok {
					t.Fatal(err)
				}
				text, _ := os.ReadFile(known)
				exit.Known = ParseFailure(text)
				if got := exit.Cause(""); strings.ReplaceAll(got, "shop/", "") != want || len([]rune(got)) > maxCause {
					t.Errorf("got  %s\nwant %s\n%s\nby\n%s", got, want, text, out.String())
				}
				if strings.Count(out.String(), "A command failed") > 1 || strings.Contains(out.String(), "hook.sh") {
					t.Errorf("stderr is\n%s", out.String())
				}
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
