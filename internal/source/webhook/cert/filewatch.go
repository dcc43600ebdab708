package cert

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long writers have to complete a set of files.
	settle = 200 * time.Millisecond
	// lookAnyway is how often files are read where the system does not tell of changes.
	lookAnyway = time.Minute
)

// followFiles calls changed after files may have changed, until ctx ends.
//
// Directories are watched, not files: programs replace files by renaming, and kubelet replaces all files of a mounted
// Secret by renaming the symbolic link ..data that they lead through.
func followFiles(ctx context.Context, log *slog.Logger, paths []string, changed func()) error {
	var events chan fsnotify.Event
	var failures chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		events, failures = watcher.Events, watcher.Errors
	}
	watched := map[string]bool{}
	told := false
	timer := time.NewTimer(0) // what happened before we watch is not told
	defer timer.Stop()
	waiting := true // for writers to complete
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
		case <-failures: // events were lost
		case <-timer.C:
			waiting = false
			problem := err
			if watcher != nil {
				problem = watchDirectories(watcher, watched, directories(paths))
			}
			changed()
			if problem != nil && !told {
				log.Warn("Changes of webhook certificate files are noticed within a minute only", "error", problem.Error())
			}
			told = problem != nil
			if problem != nil {
				timer.Reset(lookAnyway)
			}
			continue
		}
		if !waiting {
			waiting = true
			timer.Reset(settle)
		}
	}
}

// directories are those that files are in, by name and in truth.
func directories(paths []string) map[string]bool {
	dirs := map[string]bool{}
	for _, path := range paths {
		dirs[filepath.Dir(path)] = true
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs[filepath.Dir(real)] = true
		}
	}
	return dirs
}

// watchDirectories makes watched be wanted, as far as possible.
func watchDirectories(watcher *fsnotify.Watcher, watched, wanted map[string]bool) (problem error) {
	for dir := range maps.Clone(watched) {
		if !wanted[dir] {
			_ = watcher.Remove(dir) // it may have gone by itself
			delete(watched, dir)
		}
	}
	for dir := range wanted {
		// A directory that was made anew has the same name; adding one that is watched costs nothing.
		if err := watcher.Add(dir); err != nil {
			problem = err
			delete(watched, dir)
			continue
		}
		watched[dir] = true
	}
	return problem
}
