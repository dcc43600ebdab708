package workspace

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// runOf is what follows the name of the hook in the path of a run's contexts: its id, and what makes it unguessable.
var runOf = regexp.MustCompile(`^-\d+-\d+(-[A-Z2-7]+)?/`)

// EndLeft ends the processes that runs of a hook have left behind: they have the environment of the run. Without /proc it finds none.
func (w *Workspace) EndLeft(hookName string) (ended int) {
	start := "BINDING_CONTEXT_PATH=" + filepath.Join(w.runs.path, runsName) + "/hook-" + safe(hookName)
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		process, err := os.FindProcess(pid) // before the file is read: another process may get the pid
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(path)
		for variable := range strings.SplitSeq(string(text), "\x00") {
			if rest, found := strings.CutPrefix(variable, start); found && runOf.MatchString(rest) && process.Kill() == nil {
				ended++
			}
		}
		_ = process.Release()
	}
	return ended
}

// SameFiles reports whether the names of the files of two hooks do not differ.
func SameFiles(hookName, other string) bool { return safe(hookName) == safe(other) }
