package kubectl

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestEnvironments: PATH changes only if the first kubectl in it has the build id. The program of this test is the kubectl.
func TestEnvironments(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads programs for Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id, err := exec.Command("go", "tool", "buildid", self).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		prepare func(dir string) error
		path    string
		// reason is part of the error; empty means that the trimmed kubectl is used.
		reason string
	}{
		{"equal", nil, "/missing:bin:/usr/bin", ""},
		{"another build", func(dir string) error {
			return os.WriteFile(dir+"/trimmed/kubectl.buildid", []byte("another/id\n"), 0o644)
		}, "bin", "was not built together with"},
		{"no id to compare with", func(dir string) error { return os.Remove(dir + "/trimmed/kubectl.buildid") }, "bin", "no such file"},
		{"a wrapper", func(dir string) error { return os.WriteFile(dir+"/other/kubectl", []byte("#!/bin/sh\n"), 0o755) }, "other:bin",
			"it is no program for Linux"},
		{"a file that is not executable", func(dir string) error { return os.WriteFile(dir+"/other/kubectl", nil, 0o644) }, "other:bin", ""},
		{"another program", func(dir string) error { return os.Symlink("/bin/true", dir+"/other/kubectl") }, "other:bin",
			"it has no build id of Go"},
		{"none", nil, "/missing:relative", "there is no kubectl in PATH"},
		{"no trimmed one", func(dir string) error { return os.Remove(dir + "/trimmed/kubectl") }, "bin", ErrAbsent.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"bin", "other", "trimmed"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for path, text := range map[string][]byte{"trimmed/kubectl": nil, "trimmed/kubectl.buildid": id} {
				if err := os.WriteFile(filepath.Join(dir, path), text, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(self, filepath.Join(dir, "bin", "kubectl")); err != nil {
				t.Fatal(err)
			}
			if test.prepare != nil {
				if err := test.prepare(dir); err != nil {
					t.Fatal(err)
				}
			}
			path := strings.NewReplacer("bin:/usr", dir+"/bin:/usr", "other:bin", dir+"/other:"+dir+"/bin").Replace(test.path)
			if test.path == "bin" {
				path = dir + "/bin"
			}
			env := []string{"A=1", "PATH=" + path, "B=2"}
			all, err := Environments(env, Auto, dir+"/absent", dir+"/trimmed")
			if !slices.Equal(all[Process], env) {
				t.Errorf("the environment of %s is %q", Process, all[Process])
			}
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) || !slices.Equal(all[Auto], env) {
					t.Errorf("%q, error %v", all[Auto], err)
				}
				return
			}
			info, serr := os.Stat(self)
			if serr != nil {
				t.Fatal(serr)
			}
			want := []string{"A=1", "B=2", "PATH=" + dir + "/trimmed:" + path, Variable + "=" + identify(info)}
			if err != nil || !slices.Equal(all[Auto], want) || !slices.Equal(all[""], want) {
				t.Errorf("got %q, error %v, want %q", all[Auto], err, want)
			}
		})
	}
}
