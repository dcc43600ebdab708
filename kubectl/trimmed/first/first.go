// Package first runs before kubectl's packages are initialized, which is where most of the time of a short command goes. It imports
// the standard library only, and its path sorts before k8s.io, so Go initializes it first. A call that the complete kubectl must
// carry out is passed to it there, after 3 ms.
package first

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

// Served are the commands that the trimmed kubectl contains, each with its flags for which the complete one is executed.
var Served = map[string][]string{
	"annotate": nil,
	"apply":    nil,
	"auth":     nil,
	"create":   {"edit"},
	"delete":   {"interactive"},
	"get":      {"watch", "watch-only"},
	"label":    nil,
	"patch":    nil,
	"replace":  {"raw"},
	"rollout":  nil,
	"scale":    nil,
	"version":  nil,
	"wait":     nil,
}

// variable names the kubectl that this program is a part of: device, inode, size and modification time of the file, set by the
// operator. Its name is also in internal/run/kubectl.
const variable = "SHELL_OPERATOR_KUBECTL_FILE"

// next is the kubectl that the shell would find without this program.
var next string

func init() {
	identity := os.Getenv(variable)
	var found os.FileInfo
	next, found = withdraw()
	if found == nil || identity != identify(found) || !plain(os.Args[1:]) {
		Exec()
	}
	deferGC()
}

// withdraw removes this program from PATH and from the environment, and returns the next kubectl in PATH.
func withdraw() (path string, info os.FileInfo) {
	_ = os.Unsetenv(variable)
	entries := filepath.SplitList(os.Getenv("PATH"))
	self, err := os.Stat("/proc/self/exe")
	if err != nil { // there is no /proc: the shell has found the first one
		_, self = find(entries)
	}
	var others []string
	for _, dir := range entries {
		if _, info := find([]string{dir}); info == nil || !os.SameFile(info, self) {
			others = append(others, dir)
		}
	}
	_ = os.Setenv("PATH", strings.Join(others, string(filepath.ListSeparator)))
	return find(others)
}

// find returns the first kubectl in directories as a shell does.
func find(dirs []string) (string, os.FileInfo) {
	for _, dir := range dirs {
		if dir == "" {
			dir = "."
		}
		path := dir + "/kubectl"
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && syscall.Access(path, 1) == nil {
			return path, info
		}
	}
	return "", nil
}

func identify(info os.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d,%d,%d,%d", stat.Dev, stat.Ino, info.Size(), info.ModTime().UnixNano())
}

// plain reports whether this program may serve a call, as far as that is known without kubectl's flags.
func plain(args []string) bool {
	for _, arg := range args {
		// kubectl searches arguments for these itself, before it parses any.
		if arg == "--v" || arg == "-v" || arg == "--kuberc" || strings.Contains(arg, "-v=") || strings.Contains(arg, "--kuberc=") {
			return false
		}
	}
	if len(args) == 0 {
		return false
	}
	_, served := Served[args[0]]
	return (served || strings.HasPrefix(args[0], "-")) && english() && !preferences()
}

// english reports whether kubectl would print its messages untranslated.
func english() bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := os.Getenv(name); value != "" {
			language, _, _ := strings.Cut(value, ".")
			return language == "C" || language == "POSIX" || strings.HasPrefix(language, "en_")
		}
	}
	return true
}

// preferences reports whether a kuberc file may change the command.
func preferences() bool {
	switch os.Getenv("KUBERC") {
	case "off":
		return false
	case "":
		_, err := os.Lstat(filepath.Join(os.Getenv("HOME"), ".kube", "kuberc"))
		return !os.IsNotExist(err)
	}
	return true
}

// Exec replaces this process by the next kubectl.
func Exec() {
	if next == "" {
		fmt.Fprintln(os.Stderr, "kubectl: no other kubectl in PATH")
		os.Exit(127)
	}
	err := syscall.Exec(next, os.Args, os.Environ())
	if err == syscall.ENOEXEC { // a script without an interpreter, which shells run themselves
		err = syscall.Exec("/bin/sh", append([]string{"sh", next}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "kubectl: cannot execute %s: %v\n", next, err)
	os.Exit(126)
}

// deferGC lets the heap grow to the size that few commands reach before it is collected for the first time.
func deferGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	// Unreachable, so the first collection finalizes it.
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(100)
	})
}
