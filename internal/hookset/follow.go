package hookset

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// Following are the options of Follow. All are required.
type Following struct {
	// Dir is the hooks directory, Found are its files as they were loaded.
	Dir   string
	Found Files
	Log   *slog.Logger
	// Changed is called after files have changed, when their writers had time to complete the set.
	Changed func()
}

// Files that are no hooks, and change without end, cause at most calmBurst reloads, and one more each calmInterval.
const (
	calmBurst    = 5
	calmInterval = 12 * time.Second
)

// Follow reports changes of files below the hooks directory since they were found, until ctx ends.
//
// Files that are no hooks count, also those in "lib": a hook may read its bindings from any file beside it. Where only such
// files change repeatedly a hook probably writes them in its runs, so calls for them are limited, and one of them is
// logged once.
func Follow(ctx context.Context, f Following) error {
	calls := rate.NewLimiter(rate.Every(calmInterval), calmBurst)
	warned := false
	return filewatch.Follow(ctx, filewatch.Options{
		Directories: func() map[string]bool { return Directories(f.Dir) },
		Changed: func() time.Duration {
			now := Look(f.Dir)
			hooks, others := f.Found.Differences(now)
			if len(hooks)+len(others) == 0 {
				return 0
			}
			if len(hooks) == 0 {
				if call := calls.Reserve(); call.Delay() > 0 {
					wait := call.Delay()
					call.Cancel()
					if !warned {
						f.Log.Warn("A file in the hooks directory that is no hook changes again and again: let hooks write elsewhere", "path", others[0])
					}
					warned = true
					return wait
				}
			}
			f.Found = now
			f.Changed()
			return 0
		},
		Degraded: func(err error) {
			f.Log.Warn("Changes of hooks are noticed within a minute only", "path", f.Dir, "error", err.Error())
		},
	})
}

// Directories are those below dir, without hidden ones; the one that dir is in, and those that hold a link on the way to dir,
// where a replacement is noticed, as git-sync makes one; and those that links to files lead to.
func Directories(dir string) map[string]bool {
	all := map[string]bool{}
	above(all, dir)
	walk(dir, func(path string, entry fs.DirEntry) {
		if entry.IsDir() {
			all[path] = true
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			if target, err := filepath.EvalSymlinks(path); err == nil {
				all[filepath.Dir(target)] = true
			}
		}
	})
	return all
}

// above adds the directory that a path is in, and those that hold a link on the way.
func above(all map[string]bool, path string) {
	all[filepath.Dir(path)] = true
	for path = filepath.Dir(path); path != filepath.Dir(path); path = filepath.Dir(path) {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			all[filepath.Dir(path)] = true
		}
	}
}

// walk visits what is below dir in the order of names, without what is hidden and what Python keeps for itself. What it
// cannot read it leaves out: the next call of Load reports it.
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
