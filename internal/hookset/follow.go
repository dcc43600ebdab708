package hookset

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// Following says what Follow does. All but Signs are required.
type Following struct {
	// Dir is the hooks directory, Found what was there when it was read.
	Dir   string
	Found Files
	Log   *slog.Logger
	// Noticed is called at once when a file may have changed. The path is empty when it is not known which one, and before each
	// look at all of them.
	Noticed func(path string)
	// Signs tells that somebody else has seen a change.
	Signs <-chan struct{}
	// Restless is told of files that are no hooks and change again and again.
	Restless func(paths []string)
	// Changed is called when files have changed and their writers had time to complete the set.
	Changed func()
}

// Follow tells of changes of files below the hooks directory since they were found, until ctx ends.
//
// Files that are no hooks count too, and those in "lib": a hook may read its bindings from anything beside it. But where
// only such files change again and again, a hook probably writes them in its runs, so Changed is called for them at most
// often times in a while, and one of them is named in the log once.
func Follow(ctx context.Context, f Following) error {
	var calls calm
	warned := false
	return filewatch.Follow(ctx, filewatch.Options{
		Directories: func() map[string]bool { return directories(f.Dir) },
		Signs:       f.Signs,
		Noticed: func(path string) {
			if counts(f.Dir, path) {
				f.Noticed(path)
			}
		},
		Changed: func() time.Duration {
			f.Noticed("") // directories may be watched only since now
			now := Look(f.Dir)
			others, hooks := f.Found.differences(now)
			if len(others)+len(hooks) == 0 {
				return 0
			}
			if wait := calls.wait(time.Now()); len(hooks) == 0 && wait > 0 {
				if !warned {
					f.Log.Warn("A file in the hooks directory that is no hook changes again and again: let hooks write elsewhere", "path", others[0])
				}
				warned = true
				f.Restless(others)
				return wait
			}
			f.Found = now
			if len(hooks) == 0 {
				calls.add(time.Now())
			}
			f.Changed()
			return 0
		},
		Degraded: func(err error) {
			f.Log.Warn("Changes of hooks are noticed within a minute only", "path", f.Dir, "error", err.Error())
		},
	})
}

// counts tells whether a change of this file may be one of what Look returns. Hidden files do not, but for those that kubelet
// has, nor does what is beside the hooks directory.
func counts(dir, path string) bool {
	name := filepath.Base(path)
	switch {
	case path == "":
		return true
	case strings.HasPrefix(name, ".") && !strings.HasPrefix(name, ".."):
		return false
	}
	return path == dir || filepath.Dir(path) != filepath.Dir(dir)
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

// walk visits what is below dir in the order of names, without what is hidden and what Python keeps for itself. What it
// cannot read it leaves out: the next call of Load tells of it.
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
