// Package filewatch reports when files may have changed.
//
// Callers may rely on this:
//   - Whatever changes in one of the directories while Follow runs is followed by a call of Changed, after the change.
//     There is one call at the beginning, too: what happened before Follow began to watch is not lost.
//   - Changes that come together, such as the files of a set that is copied or a volume that kubelet swaps, cause few calls.
//   - Where the system does not report changes, Changed is called once a minute.
//
// Not attempted: to report which file has changed. Callers read what they need and compare.
package filewatch

import (
	"context"
	"maps"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long writers have to complete a set of files.
	settle = 200 * time.Millisecond
	// lookAnyway is the interval of calls to Changed where the system does not report changes.
	lookAnyway = time.Minute
)

// Options select the directories and the callbacks. All are required.
type Options struct {
	// Directories returns the directories to watch. It is asked before every call of Changed, because directories come
	// and go. Directories are watched, not files: programs replace files by renaming, and kubelet replaces all files of
	// a mounted volume by renaming the symbolic link ..data that they lead through.
	Directories func() map[string]bool
	// Changed is called when something may have changed. No two calls overlap. If it returns a time, it is called again after
	// that, whether anything changes or not.
	Changed func() (again time.Duration)
	// Degraded receives the reason why changes are noticed within a minute only, once until it has passed.
	Degraded func(error)
}

// Follow calls Changed after files may have changed, until ctx ends.
func Follow(ctx context.Context, o Options) error {
	var events chan fsnotify.Event
	var failures chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		events, failures = watcher.Events, watcher.Errors
	}
	watched := map[string]bool{}
	reported := false
	timer := time.NewTimer(0) // earlier changes are not reported
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
				problem = watchDirectories(watcher, watched, o.Directories())
			}
			again := o.Changed()
			if problem != nil && !reported {
				o.Degraded(problem)
			}
			reported = problem != nil
			if problem != nil {
				timer.Reset(lookAnyway)
			}
			if again > 0 && (problem == nil || again < lookAnyway) {
				timer.Reset(again)
			}
			continue
		}
		if !waiting {
			waiting = true
			timer.Reset(settle)
		}
	}
}

// watchDirectories makes watched be wanted, as far as possible.
func watchDirectories(watcher *fsnotify.Watcher, watched, wanted map[string]bool) (problem error) {
	for dir := range maps.Clone(watched) {
		if !wanted[dir] {
			_ = watcher.Remove(dir) // the directory may be gone already
			delete(watched, dir)
		}
	}
	for dir := range wanted {
		// A directory that was recreated has the same name; adding one that is watched costs nothing.
		if err := watcher.Add(dir); err != nil {
			problem = err
			delete(watched, dir)
			continue
		}
		watched[dir] = true
	}
	return problem
}
