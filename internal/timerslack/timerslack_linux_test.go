package timerslack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role makes this test binary a program that executes itself again.
const role = "TIMERSLACK_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "removed":
		_ = os.Remove(os.Args[0])
	}
	program()
}

// program prints a line for each image, and then what is so when it goes on.
func program() {
	fmt.Println("image", status("SigBlk:", "SigIgn:", "SigCgt:"))
	image := Enter()
	files := openFiles()
	image.Again()
	fmt.Println("pid", os.Getpid())
	fmt.Println("args", os.Args[1:])
	fmt.Println("variable", os.Getenv(Variable), len(slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, Variable) })))
	fmt.Println("slack", int64(image.Slack))
	fmt.Println("main", own())
	fmt.Println("monitor", monitor())
	fmt.Println("files", files, openFiles())
}

// status is some lines of what the kernel tells of this thread.
func status(keys ...string) (values []string) {
	text, err := os.ReadFile("/proc/thread-self/status")
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); slices.Contains(keys, key) {
			values = append(values, value)
		}
	}
	if err != nil || len(values) != len(keys) {
		panic(fmt.Sprint("cannot read the status of this thread: ", err))
	}
	return values
}

func own() int {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		panic(err)
	}
	return slack
}

// monitor is the timer slack of the first thread that the runtime has made, or "unknown" without the right to read it.
func monitor() string {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		panic(err)
	}
	var ids []int
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		ids = append(ids, id)
	}
	slices.Sort(ids)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", ids[1]))
	if errors.Is(err, os.ErrPermission) {
		return "unknown"
	}
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	return limit.Cur
}

// start runs the program with a timer slack of its own, and returns what it printed, as words after the first one of a line.
func start(t *testing.T, slack time.Duration, env ...string) (images []string, said map[string]string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer Set(time.Duration(own()))
	Set(slack)
	cmd := exec.Command(copyOfTest(t), "one", "two words")
	cmd.Env = append(os.Environ(), append(env, "GORACE="+os.Getenv("GORACE"))...)
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, role) }) {
		cmd.Env = append(cmd.Env, role+"=program")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said = map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "image" {
			images = append(images, value)
		}
		said[key] = value
	}
	if want := fmt.Sprint(cmd.Process.Pid); said["pid"] != want {
		t.Errorf("the process is %s, not %s", said["pid"], want)
	}
	if said["args"] != "[one two words]" {
		t.Errorf("arguments %s", said["args"])
	}
	if said["variable"] != " 0" {
		t.Errorf("the environment still has the variable: %s", said["variable"])
	}
	return images, said
}

// copyOfTest is a program that may be removed.
func copyOfTest(t *testing.T) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.TempDir(), "program")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecondImage(t *testing.T) {
	images, said := start(t, 70*time.Microsecond)
	if len(images) != 2 || images[0] != images[1] {
		t.Errorf("images with these blocked, ignored and caught signals: %q", images)
	}
	if said["slack"] != "70000" || said["main"] != "70000" {
		t.Errorf("timer slack for processes %s, of the main thread %s", said["slack"], said["main"])
	}
	switch said["monitor"] {
	case "unknown":
		t.Log("the timer slack of other threads can only be read with CAP_SYS_NICE")
	case "1000000":
	default:
		t.Errorf("timer slack of the monitor: %s", said["monitor"])
	}
}

func TestFirstImageGoesOn(t *testing.T) {
	for _, test := range []struct {
		name  string
		slack time.Duration
		env   string
		// processes is Image.Slack, main that of the thread.
		processes, main string
	}{
		{"somebody has turned it off", 70 * time.Microsecond, Variable + "=0", "0", "70000"},
		{"the variable is nonsense", 70 * time.Microsecond, Variable + "=-1ms", "0", "70000"},
		{"the variable is too large", 70 * time.Microsecond, Variable + "=1" + strings.Repeat("0", 30), "0", "70000"},
		{"hooks would be seconds late", 70 * time.Microsecond, Variable + "=2000000000", "0", "70000"},
		{"somebody says what processes get", 70 * time.Microsecond, Variable + "=60000", "60000", "60000"},
		{"threads are lazy as they are", time.Millisecond, "A=b", "0", "1000000"},
		{"there is no program any more", 70 * time.Microsecond, role + "=removed", "0", "70000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			images, said := start(t, test.slack, test.env)
			if len(images) != 1 || said["slack"] != test.processes || said["main"] != test.main {
				t.Errorf("%d images, timer slack for processes %s, of the main thread %s", len(images), said["slack"], said["main"])
			}
			if before, after, _ := strings.Cut(said["files"], " "); before != after {
				t.Errorf("the limit of open files was %s, is %s", before, after)
			}
		})
	}
}
