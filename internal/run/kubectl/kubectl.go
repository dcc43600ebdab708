// Package kubectl lets hooks call the trimmed kubectl instead of the complete one: a program with the same commands that starts in less
// than half the time. It is built from kubectl/trimmed.
//
// Promises:
//   - A hook's kubectl changes only if the first kubectl in PATH is the one that the trimmed one was built with. A different version, a
//     wrapper or a missing kubectl leave the environment as it is.
//   - Only PATH and two variables change. The trimmed kubectl checks the file that the first one names at each call, so a kubectl that is
//     replaced later, or one that a hook puts into its PATH, is the one that is executed. What it executes gets neither variable.
//   - The second one names a file in the private directory of the run, in which the trimmed kubectl records command and way of each call,
//     and whether its arguments have the word "secret", but never the arguments.
package kubectl

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Modes of --kubectl.
const (
	Auto    = "auto"
	Process = "process"
)

// Variable is the identity of the complete kubectl, for the trimmed one. Its name is also in kubectl/trimmed/first.
const Variable = "SHELL_OPERATOR_KUBECTL_FILE"

// installed is the directory of the trimmed kubectl in the image.
const installed = "/usr/lib/shell-operator/kubectl-trimmed"

// ErrAbsent means that there is no trimmed kubectl.
var ErrAbsent = errors.New("there is no trimmed kubectl")

// Dirs returns where the trimmed kubectl may be: beside the operator's executable, as make builds it, or where the image has it.
func Dirs() []string {
	executable, err := os.Executable()
	if err != nil {
		return []string{installed}
	}
	return []string{filepath.Join(filepath.Dir(executable), "kubectl-trimmed"), installed}
}

// Environments returns the environments of runs by mode; the empty mode has the environment of the default. The error is why they
// are all equal.
func Environments(env []string, byDefault string, dirs ...string) (map[string][]string, error) {
	trimmed, err := environment(env, dirs)
	all := map[string][]string{Auto: trimmed, Process: env}
	all[""] = all[byDefault]
	return all, err
}

// environment returns env with the first of dirs that has a trimmed kubectl in front of PATH. With an error env is unchanged.
func environment(env []string, dirs []string) ([]string, error) {
	i := slices.IndexFunc(dirs, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "kubectl")); return err == nil })
	if i < 0 {
		return env, fmt.Errorf("%w in %s", ErrAbsent, strings.Join(dirs, " or "))
	}
	isPath := func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }
	path := ""
	if i := slices.IndexFunc(env, isPath); i >= 0 {
		path = strings.TrimPrefix(env[i], "PATH=")
	}
	complete, info := find(path)
	if complete == "" {
		return env, errors.New("there is no kubectl in PATH")
	}
	wanted, err := os.ReadFile(filepath.Join(dirs[i], "kubectl.buildid"))
	if err != nil {
		return env, err
	}
	id, err := buildID(complete)
	if err != nil {
		return env, fmt.Errorf("%s: %w", complete, err)
	}
	if id != strings.TrimSpace(string(wanted)) {
		return env, fmt.Errorf("%s was not built together with %s/kubectl", complete, dirs[i])
	}
	return append(slices.DeleteFunc(slices.Clone(env), isPath),
		"PATH="+dirs[i]+string(filepath.ListSeparator)+path, Variable+"="+identify(info)), nil
}

// find returns the first kubectl in PATH, as a shell finds it. Relative directories depend on the working directory of the hook;
// the trimmed kubectl searches them.
func find(path string) (string, fs.FileInfo) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, "kubectl")
		if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && syscall.Access(file, 1) == nil {
			return file, info
		}
	}
	return "", nil
}

func identify(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d,%d,%d,%d", stat.Dev, stat.Ino, info.Size(), info.ModTime().UnixNano())
}

// buildID reads the id that the Go linker writes into programs.
func buildID(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("it is no program for Linux: %w", err)
	}
	defer file.Close()
	section := file.Section(".note.go.buildid")
	if section == nil {
		return "", errors.New("it has no build id of Go")
	}
	note, err := section.Data()
	if err != nil {
		return "", err
	}
	// A note is the lengths of name and description, a type, the name "Go" padded to four bytes, and the description.
	const header = 16
	if len(note) < header || !bytes.Equal(note[12:16], []byte("Go\x00\x00")) {
		return "", errors.New("it has no build id of Go")
	}
	size := file.ByteOrder.Uint32(note[4:])
	if uint64(size) > uint64(len(note)-header) {
		return "", errors.New("it has no build id of Go")
	}
	return string(note[header : header+int(size)]), nil
}
