package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/sdk"
)

// TestUnpack writes each file of the library, and nothing else.
func TestUnpack(t *testing.T) {
	dir, err := sdk.UnpackPython(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string) (found []string) {
		all, _ := filepath.Glob(pattern)
		for _, path := range all {
			if name := filepath.Base(path); name != "__pycache__" {
				found = append(found, name)
			}
		}
		return found
	}
	want := names("shell_operator_hook/*")
	if got := names(filepath.Join(dir, "shell_operator_hook", "*")); len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("it wrote %q, not %q", got, want)
	}
}

// TestWheel builds the wheel of a release twice, with equal bytes, and imports the library from it.
func TestWheel(t *testing.T) {
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	const name = "shell_operator_hook-1.2.3rc1-py3-none-any.whl"
	var before []byte
	dir := t.TempDir()
	for range 2 {
		if out, err := exec.Command("../../scripts/build-wheel.py", "v1.2.3-rc.1", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		wheel, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || before != nil && !bytes.Equal(wheel, before) {
			t.Fatalf("the wheel differs between two builds, %v", err)
		}
		before = wheel
	}
	// What pip checks: each file and its digest are in RECORD, and each file of the package is there.
	const check = `
import base64, csv, hashlib, io, os, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
record = "shell_operator_hook-1.2.3rc1.dist-info/RECORD"
rows = {path: digest for path, digest, _ in csv.reader(io.StringIO(wheel.read(record).decode()))}
assert set(rows) == set(wheel.namelist()), rows
for path, digest in rows.items():
    found = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(path)).digest()).decode().rstrip("=")
    assert path == record or digest == "sha256=" + found, path
assert {"shell_operator_hook/" + file for file in os.listdir("shell_operator_hook") if file != "__pycache__"} <= set(rows), rows
assert "shell_operator_hook/py.typed" in rows
sys.path[:] = [sys.argv[1]] + [path for path in sys.path if path]
import shell_operator_hook
assert shell_operator_hook.__file__.startswith(sys.argv[1]), shell_operator_hook.__file__
`
	if out, err := exec.Command(program, "-c", check, filepath.Join(dir, name)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Warnings of the interpreter are failures: they announce what the next Python does not have.
func TestPython(t *testing.T) {
	program, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.Command(program, "-W", "error", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
