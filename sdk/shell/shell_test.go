package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/wire"
	"github.com/shell-operator/shell-operator/sdk"
)

// TestScripts runs the hooks in testdata, one file for each group of functions, with every jq of this machine. A file is
// a script and what it needs: hooks, contexts, expected outputs. UPDATE=1 rewrites the expectations of cmp; the command
// json compares files whatever the order of keys.
func TestScripts(t *testing.T) {
	for name, dir := range jqs(t) {
		if testing.Short() || name == "gojq" && !test.Long() && len(jqs(t)) > 1 {
			continue // the scripts with heads have it
		}
		t.Run(name, func(t *testing.T) { scripts(t, "testdata", dir, hookCommand) })
	}
	// As in a run of the operator, which writes heads beside the contexts.
	t.Run("heads", func(t *testing.T) {
		scripts(t, "testdata", test.Tools(t), func(ts *testscript.TestScript, neg bool, args []string) {
			headsCommand(ts, false, nil)
			hookCommand(ts, neg, args)
		})
	})
	t.Run("changed heads", func(t *testing.T) { scripts(t, "testdata/heads", test.Tools(t), hookCommand) })
}

func scripts(t *testing.T, testdata, jq string, hook func(ts *testscript.TestScript, neg bool, args []string)) {
	testscript.Run(t, testscript.Params{
		Dir:                 testdata,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup:               func(e *testscript.Env) error { return setup(e, jq) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"hook":   hook,
			"heads":  headsCommand,
			"json":   jsonCommand,
			"status": statusCommand,
		},
	})
}

// headsCommand is "heads": writes the contexts in one line, as the operator does, and their heads, if they have any.
func headsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: heads")
	}
	path := ts.Getenv("BINDING_CONTEXT_PATH")
	text, err := os.ReadFile(path)
	var file bytes.Buffer
	if err != nil || json.Compact(&file, text) != nil {
		return
	}
	ts.Check(os.WriteFile(path, file.Bytes(), 0o600))
	if heads := wire.HeadsOf(file.Bytes()); heads != nil {
		ts.Check(os.WriteFile(strings.TrimSuffix(path, ".json")+".heads", heads, 0o600))
	}
}

// jqs returns folders to put first into PATH: one with gojq, which the tests always have, and one with the jq that is
// installed here, if there is one. With -short there is only one of them.
func jqs(t testing.TB) map[string]string {
	found := map[string]string{}
	if path, err := exec.LookPath("jq"); err == nil {
		if version, err := exec.Command(path, "--version").Output(); err == nil && bytes.HasPrefix(version, []byte("jq-")) {
			found[strings.TrimSpace(string(version))] = filepath.Dir(path)
		}
	}
	if len(found) == 0 || !testing.Short() {
		found["gojq"] = test.Tools(t)
	}
	return found
}

// setup unpacks the library where a script can add to it, and names the files of a run.
func setup(e *testscript.Env, jq string) error {
	lib, err := sdk.UnpackShell(filepath.Join(e.WorkDir, "lib"))
	if err != nil {
		return err
	}
	e.Setenv("SHELL_LIB", lib)
	e.Setenv("FRAMEWORK_DIR", filepath.Dir(lib))
	e.Setenv("PATH", jq+string(filepath.ListSeparator)+os.Getenv("PATH"))
	e.Setenv("LC_ALL", "C.UTF-8")
	e.Setenv("BINDING_CONTEXT_PATH", filepath.Join(e.WorkDir, "context.json"))
	for variable, name := range outputs {
		e.Setenv(variable, filepath.Join(e.WorkDir, name))
	}
	return nil
}

var outputs = map[string]string{
	"KUBERNETES_PATCH_PATH":    "patch",
	"METRICS_PATH":             "metrics",
	"ADMISSION_RESPONSE_PATH":  "admission",
	"VALIDATING_RESPONSE_PATH": "admission",
	"CONVERSION_RESPONSE_PATH": "conversion",
	"HTTP_RESPONSE_PATH":       "http",
	"RUN_RESULT_PATH":          "result",
}

// hookCommand is "hook FILE [ARG…]": empties the output files and runs the hook as the operator does. "! hook" requires it
// to fail, "status N" afterwards with that status.
func hookCommand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range outputs {
		ts.Check(os.WriteFile(ts.MkAbs(name), nil, 0o600))
	}
	err := ts.Exec("bash", args...)
	if neg == (err == nil) {
		ts.Fatalf("the hook ended with: %v", err)
	}
	var exit *exec.ExitError
	status := 0
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	}
	ts.Setenv("status", fmt.Sprint(status))
}

func statusCommand(ts *testscript.TestScript, neg bool, args []string) {
	if got := ts.Getenv("status"); neg || len(args) != 1 || got != args[0] {
		ts.Fatalf("the hook ended with status %s", got)
	}
}

// jsonCommand is "json GOT WANT": both files hold the same JSON values in the same order. WANT may have line breaks
// wherever it reads better.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json GOT WANT")
	}
	got, err := values(ts.ReadFile(args[0]))
	ts.Check(err)
	want, err := values(ts.ReadFile(args[1]))
	ts.Check(err)
	if got != want {
		ts.Fatalf("%s is not as in %s\n--- got:\n%s--- want:\n%s", args[0], args[1], got, want)
	}
}

// values writes each value of a stream on a line of its own, with sorted keys.
func values(stream string) (string, error) {
	var lines strings.Builder
	decoder := json.NewDecoder(strings.NewReader(stream))
	decoder.UseNumber()
	for {
		var value any
		if err := decoder.Decode(&value); err == io.EOF {
			return lines.String(), nil
		} else if err != nil {
			return "", fmt.Errorf("%w in:\n%s", err, stream)
		}
		line, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		lines.Write(append(line, '\n'))
	}
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "lib")
	for range 2 { // the second time over the first
		lib, err := sdk.UnpackShell(dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "shell_lib.sh"); lib != want {
			t.Errorf("the library is at %s, want %s", lib, want)
		}
	}
	for path, want := range map[string]os.FileMode{
		"":                            0o700,
		"frameworks/shell":            0o700,
		"shell_lib.sh":                0o600,
		"frameworks/shell/context.sh": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %q is %o, want %o", path, got, want)
		}
	}
	if _, err := sdk.UnpackShell("/dev/null/lib"); err == nil {
		t.Error("a directory that cannot be made is no error")
	}
}
