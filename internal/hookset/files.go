package hookset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Files are those below the hooks directory at one moment, by their paths. Directories count as files.
type Files map[string]fileState

type fileState struct {
	// mark changes when the file does, or the one that a link leads to.
	mark string
	// hook: the file is a hook, unless it is in a directory for shared code. No run writes it.
	hook bool
}

// Look returns the files of a directory. It is never nil.
func Look(dir string) Files {
	all := Files{}
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			all[path] = fileState{mark: "directory"}
			return
		}
		mark, err := markOf(path)
		if err != nil {
			all[path] = fileState{mark: "cannot be read"}
			return
		}
		all[path] = fileState{mark: mark, hook: unfit(path, entry.Name()) == nil || mountedScript(path) != nil}
	})
	return all
}

func markOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	target, _ := filepath.EvalSymlinks(path)
	return fmt.Sprintln(target, info.Mode(), info.Size(), info.ModTime().UnixNano()), nil
}

// Differences returns the files in which the two differ, in order.
func (f Files) Differences(now Files) (hooks, others []string) {
	differ := func(path string, a, b fileState) {
		switch {
		case a == b:
		case a.hook || b.hook:
			hooks = append(hooks, path)
		default:
			others = append(others, path)
		}
	}
	for path, state := range f {
		differ(path, state, now[path])
	}
	for path, state := range now {
		if _, both := f[path]; !both {
			differ(path, fileState{}, state)
		}
	}
	slices.Sort(hooks)
	slices.Sort(others)
	return hooks, others
}
