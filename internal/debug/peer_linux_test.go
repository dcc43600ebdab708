package debug

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Descendants of a process are found over all their parents; a process that has ended is refused, one outside of the namespace is not.
func TestDescends(t *testing.T) {
	cmd := exec.Command("sh", "-c", `sleep 1000 & echo $!; cat >/dev/null; kill $!`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 64)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.Fields(string(text[:n]))[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		pid   int
		roots []int
		want  bool
	}{
		"a child":                 {cmd.Process.Pid, []int{os.Getpid()}, true},
		"a grandchild":            {grandchild, []int{os.Getpid()}, true},
		"of another process":      {os.Getppid(), []int{cmd.Process.Pid}, false},
		"this process":            {os.Getpid(), []int{os.Getpid()}, false},
		"outside":                 {0, []int{os.Getpid(), 1}, false},
		"the first process":       {1, []int{os.Getpid()}, false},
		"below the first process": {grandchild, []int{1}, below1(t, grandchild)},
	} {
		if got := descends(row.pid, row.roots...); got != row.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !descends(cmd.Process.Pid, os.Getpid()) {
		t.Error("a process that has ended is not refused")
	}
}

// below1 reports whether the parents of a process end at pid 1; in containers they may end at 0.
func below1(t *testing.T, pid int) bool {
	t.Helper()
	for pid > 1 {
		parent, err := parentOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		pid = parent
	}
	return pid == 1
}

// In a Pod, orphans are children of the first process: the operator, tini, or the pause process.
func TestHookRoots(t *testing.T) {
	for name, row := range map[string]struct {
		pid, parent int
		inPod       bool
		want        string
	}{
		"outside of a Pod":           {4000, 1, false, "[4000]"},
		"the first process":          {1, 0, true, "[1 1]"},
		"below tini":                 {7, 1, true, "[7 1]"},
		"with shareProcessNamespace": {20, 0, true, "[20 1]"},
		"started by another program": {20, 12, true, "[20]"},
	} {
		if got := fmt.Sprint(hookRootsOf(row.pid, row.parent, row.inPod)); got != row.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
