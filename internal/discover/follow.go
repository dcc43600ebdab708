package discover

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// Follow calls changed after files below the hooks directory have changed since they were found, until ctx ends.
//
// Files that are no hooks count too, and those in "lib": a hook may read its bindings from anything beside it. But where
// only such files change again and again, a hook probably writes them in its runs, so changed is called for them at most
// often times in a while, and one of them is named in the log once.
func Follow(ctx context.Context, dir string, found Files, log *slog.Logger, changed func()) error {
	var calls calm
	warned := false
	return filewatch.Follow(ctx, filewatch.Options{
		Directories: func() map[string]bool { return directories(dir) },
		Changed: func() time.Duration {
			now := Look(dir)
			others, hooks := found.differences(now)
			if len(others) == 0 && !hooks {
				return 0
			}
			if wait := calls.wait(time.Now()); !hooks && wait > 0 {
				if !warned {
					log.Warn("A file in the hooks directory that is no hook changes again and again: let hooks write elsewhere", "path", others[0])
				}
				warned = true
				return wait
			}
			found = now
			if !hooks {
				calls.add(time.Now())
			}
			changed()
			return 0
		},
		Degraded: func(err error) {
			log.Warn("Changes of hooks are noticed within a minute only", "path", dir, "error", err.Error())
		},
	})
}

// often and while bound how often files that are no hooks count.
const (
	often = 5
	while = time.Minute
)

// calm remembers when it was called last, for a while.
type calm struct{ times []time.Time }

func (c *calm) add(now time.Time) { c.times = append(c.times, now) }

// wait is how long it takes until the next call is due.
func (c *calm) wait(now time.Time) time.Duration {
	c.times = slices.DeleteFunc(c.times, func(t time.Time) bool { return now.Sub(t) >= while })
	if len(c.times) < often {
		return 0
	}
	return c.times[0].Add(while).Sub(now)
}

// directories are those below dir, without hidden ones, and the one that dir is in: a directory that is replaced as a
// whole is noticed there.
func directories(dir string) map[string]bool {
	all := map[string]bool{filepath.Dir(dir): true}
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			all[path] = true
		}
	})
	return all
}

// Files are those below the hooks directory at one moment, by their paths. Directories count as files.
type Files map[string]fileState

type fileState struct {
	// mark changes when the file does, or the one that a link leads to.
	mark string
	// hook tells that it is one, unless it is in a directory for shared code.
	hook bool
}

// Look returns the files that there are. It is never nil.
func Look(dir string) Files {
	all := Files{}
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			all[path] = fileState{mark: "directory"}
			return
		}
		info, err := os.Stat(path)
		if err != nil {
			all[path] = fileState{mark: "cannot be read"}
			return
		}
		target, _ := filepath.EvalSymlinks(path)
		all[path] = fileState{
			mark: fmt.Sprintln(target, info.Mode(), info.Size(), info.ModTime().UnixNano()),
			hook: unfit(path, entry.Name()) == nil || mountedScript(path) != nil,
		}
	})
	return all
}

// differences returns the files in which the two differ and that are no hooks, in order, and whether hooks differ.
func (f Files) differences(now Files) (others []string, hooks bool) {
	differ := func(path string, a, b fileState) {
		switch {
		case a == b:
		case a.hook || b.hook:
			hooks = true
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
	slices.Sort(others)
	return others, hooks
}

// walk visits what is below dir in the order of names, without what is hidden and what Python keeps for itself. What it
// cannot read it leaves out: the next call of Hooks tells of it.
func walk(dir string, visit func(path string, entry fs.DirEntry)) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__pycache__"):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		visit(path, entry)
		return nil
	})
}
