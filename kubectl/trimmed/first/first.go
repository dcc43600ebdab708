// Package first runs before nearly all other packages are initialized, which is where most of the time of a short command goes. A call
// that the complete kubectl must carry out is passed to it there.
//
// Go initializes a package when its imports are, and of several the one whose path sorts first. So this package imports os and syscall
// alone: with fmt or strings it would run after a hundred others, 3 ms later.
package first

import (
	"os"
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
	calls = os.Getenv(callsVariable)
	var found os.FileInfo
	next, found = withdraw()
	if found == nil || identity != identify(found) {
		Exec("path")
	}
	if reason := elsewhere(os.Args[1:]); reason != "" {
		Exec(reason)
	}
}

// withdraw removes this program from PATH and from the environment, and returns the next kubectl in PATH.
func withdraw() (path string, info os.FileInfo) {
	_ = os.Unsetenv(variable)
	_ = os.Unsetenv(callsVariable)
	var entries []string
	if path := os.Getenv("PATH"); path != "" {
		entries = split(path, os.PathListSeparator)
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil { // there is no /proc: the shell has found the first one
		_, self = find(entries)
	}
	var others []string
	kept := ""
	for _, dir := range entries {
		if _, info := find([]string{dir}); info == nil || !os.SameFile(info, self) {
			if others != nil {
				kept += string(os.PathListSeparator)
			}
			others, kept = append(others, dir), kept+dir
		}
	}
	_ = os.Setenv("PATH", kept)
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
	return decimal(int64(stat.Dev)) + "," + decimal(int64(stat.Ino)) + "," + decimal(info.Size()) + "," + decimal(info.ModTime().UnixNano())
}

// elsewhere returns why the complete kubectl carries out a call, as far as that is known without kubectl's flags, or nothing.
func elsewhere(args []string) (reason string) {
	if len(args) == 0 {
		return "command"
	}
	if _, served := Served[args[0]]; served {
		Verb = args[0]
	} else if !hasPrefix(args[0], "-") {
		return "command"
	}
	for _, arg := range args {
		// kubectl searches arguments for these itself, before it parses any.
		if arg == "--v" || arg == "-v" || arg == "--kuberc" || contains(arg, "-v=") || contains(arg, "--kuberc=") {
			return "flag"
		}
	}
	switch {
	case !english():
		return "language"
	case preferences():
		return "kuberc"
	}
	return ""
}

// english reports whether kubectl would print its messages untranslated.
func english() bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := os.Getenv(name); value != "" {
			language := split(value, '.')[0]
			return language == "C" || language == "POSIX" || hasPrefix(language, "en_")
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
		home := os.Getenv("HOME")
		if home != "" {
			home += "/"
		}
		_, err := os.Lstat(home + ".kube/kuberc")
		return !os.IsNotExist(err)
	}
	return true
}

// Exec replaces this process by the next kubectl, for one of the reasons in docs/explanation/kubectl-in-hooks.md.
func Exec(reason string) {
	Record("complete " + reason)
	if next == "" {
		fail(127, "kubectl: no other kubectl in PATH\n")
	}
	err := syscall.Exec(next, os.Args, os.Environ())
	if err == syscall.ENOEXEC { // a script without an interpreter, which shells run themselves
		err = syscall.Exec("/bin/sh", append([]string{"sh", next}, os.Args[1:]...), os.Environ())
	}
	fail(126, "kubectl: cannot execute "+next+": "+err.Error()+"\n")
}

func fail(status int, message string) {
	_, _ = os.Stderr.WriteString(message)
	os.Exit(status)
}
