package app

import (
	"sync"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/run"
)

// texts keep the files of hooks as they were loaded, for runs. Nil means that nobody follows the files.
type texts struct {
	kept *hookset.Copies
	dir  string
	// signs tells who follows the files that a run has seen a change.
	signs chan struct{}

	mu sync.Mutex
	// restless are files that hooks probably write in their runs. They do not count: hooks want to see what they wrote.
	restless map[string]bool
}

func newTexts(o Options, private string) *texts {
	if !o.WatchHooks {
		return nil
	}
	signs := make(chan struct{}, 1)
	sign := func() {
		select {
		case signs <- struct{}{}:
		default:
		}
	}
	return &texts{
		kept: hookset.NewCopies(hookset.CopiesOptions{Dir: private, Log: o.Log, Untold: sign}), dir: o.HooksDir, signs: signs, restless: map[string]bool{},
	}
}

// copied makes a copy of the files that were there as found.
func (t *texts) copied(found hookset.Files) (c *hookset.Copy, complete bool) {
	return t.kept.Copy(t.dir, asFound{found, t})
}

// noticed is told that a file may have changed, or any when the path is empty. Most writers write often.
func (t *texts) noticed(path string) {
	if path == "" || !t.isRestless(path) && !t.kept.Differ() {
		t.kept.Look()
	}
}

func (t *texts) addRestless(paths []string) {
	t.mu.Lock()
	for _, path := range paths {
		t.restless[path] = true
	}
	t.mu.Unlock()
	t.kept.Look()
}

func (t *texts) isRestless(path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restless[path]
}

// asFound are the files at one moment.
type asFound struct {
	hookset.Files
	texts *texts
}

func (f asFound) Changed() string {
	for _, path := range f.Differences(hookset.Look(f.texts.dir)) {
		if !f.texts.isRestless(path) {
			return path
		}
	}
	return ""
}

// forRuns are what a Runner asks.
func (t *texts) forRuns() run.Texts {
	if t == nil {
		return nil
	}
	return leases{t.kept}
}

type leases struct{ kept *hookset.Copies }

func (l leases) Take() run.Text { return l.kept.Take() }
