package hookset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Files are the files below the hooks directory at one moment: by path, a text that changes when the file does, or the file that a link
// leads to. Directories count as files.
type Files map[string]string

// Look returns the files of a directory. It is never nil.
func Look(dir string) Files {
	all := Files{}
	walk(dir, func(path string, entry fs.DirEntry) {
		info, err := os.Stat(path)
		switch {
		case entry.IsDir():
			all[path] = "directory"
		case err != nil:
			all[path] = "cannot be read"
		default:
			target, _ := filepath.EvalSymlinks(path)
			all[path] = fmt.Sprintln(target, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
	})
	return all
}

// Differences returns the files in which the two differ, in order.
func (f Files) Differences(now Files) (paths []string) {
	for path, mark := range f {
		if now[path] != mark {
			paths = append(paths, path)
		}
	}
	for path := range now {
		if f[path] == "" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
