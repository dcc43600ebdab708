package workspace

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExposed(t *testing.T) {
	const stranger = 54321
	uid, gid := os.Geteuid(), os.Getegid()
	for _, test := range []struct {
		name      string
		mode      fs.FileMode
		above     fs.FileMode
		uid, gid  int
		pod       bool
		want      string // a part of the problem
		whose     string // the name of the directory
		chownOnly bool   // takes root
	}{
		{name: "private", mode: 0o700, above: 0o755, uid: uid, gid: gid},
		{name: "usual", mode: 0o755, above: 0o755, uid: uid, gid: gid},
		{name: "sticky, as /tmp", mode: 0o777 | fs.ModeSticky, above: 0o755, uid: uid, gid: gid},
		{name: "open to all", mode: 0o777, above: 0o755, uid: uid, gid: gid, want: "all users can replace", whose: "tmp"},
		{name: "above it open to all", mode: 0o700, above: 0o777, uid: uid, gid: gid, want: "all users can replace", whose: "above"},
		{name: "above it sticky", mode: 0o700, above: 0o777 | fs.ModeSticky, uid: uid, gid: gid},
		{name: "an emptyDir", mode: 0o777, above: 0o755, uid: uid, gid: gid, pod: true},
		{name: "the group of the user", mode: 0o775, above: 0o755, uid: uid, gid: gid},
		{name: "another group", mode: 0o775, above: 0o755, uid: uid, gid: stranger, want: "the group with the id 54321", whose: "tmp",
			chownOnly: true},
		{name: "fsGroup", mode: 0o2775, above: 0o755, uid: uid, gid: stranger, pod: true, chownOnly: true},
		{name: "another user's", mode: 0o700, above: 0o755, uid: stranger, gid: gid, want: "the user with the id 54321 owns", whose: "tmp",
			chownOnly: true},
		{name: "a volume of another user", mode: 0o755, above: 0o755, uid: stranger, gid: gid, pod: true, want: "the user with the id 54321 owns",
			whose: "tmp", chownOnly: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.chownOnly && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			above := filepath.Join(t.TempDir(), "above")
			dir := filepath.Join(above, "tmp")
			for _, err := range []error{
				os.MkdirAll(dir, 0o700), os.Chown(dir, test.uid, test.gid), os.Chmod(dir, test.mode), os.Chmod(above, test.above),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			at, problem, _ := exposed(dir, uid, gid, test.pod)
			if (problem == "") != (test.want == "") || !strings.Contains(problem, test.want) || problem != "" && filepath.Base(at) != test.whose {
				t.Errorf("%s: %q, want %q about %s", at, problem, test.want, test.whose)
			}
		})
	}
}

// The warning contains everything that is needed to find and fix the directory.
func TestWarnOfExposure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tmp")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d := &Directories{Tmp: dir, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if d.warnOfExposure("--tmp-dir", dir); log.Len() > 0 {
		t.Errorf("a private directory: %s", log.String())
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d.warnOfExposure("--tmp-dir", dir)
	for _, part := range []string{"level=WARN", "directory=" + dir, "chmod +t " + dir, "--tmp-dir"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is not in %s", part, log.String())
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a directory to another user
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	d.Hooks = t.TempDir()
	if err := d.Check(); err == nil || !strings.Contains(err.Error(), "the user with the id 12345 owns "+dir) {
		t.Errorf("a directory of another user: %v", err)
	}
	d.InPod = true
	if err := d.Check(); err != nil {
		t.Errorf("a volume of another user: %v", err)
	}
}
