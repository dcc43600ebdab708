package workspace

import (
	"fmt"
	"path/filepath"
)

// Prepare makes what a hook needs besides the files of its runs, and returns the variables that name it: before a call with --config.
func (w *Workspace) Prepare(hookName string) (env []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.restore(); err != nil || w.homes == nil {
		return nil, err
	}
	name, ok := w.homes[hookName]
	if !ok {
		name = "home-" + safe(hookName) + w.unguessable()
		if w.keep {
			name += fmt.Sprintf("-%d", len(w.homes)) // names of hooks may differ in other characters only
		}
		w.homes[hookName] = name
	}
	path := filepath.Join(w.main.path, homesName, name)
	return []string{"HOME=" + path}, ensure(path, 0o700, "the home directory of a hook")
}

// Leave removes the home directory of a hook that has no runs any more. It does not wait for that.
func (w *Workspace) Leave(hookName string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, ok := w.homes[hookName]
	if delete(w.homes, hookName); !ok || w.keep {
		return
	}
	w.removals.Go(func() {
		if err := removeBelow(filepath.Join(w.main.path, homesName), name); err != nil {
			w.log.Warn("Cannot remove the home directory of a hook", "hook", hookName, "error", err.Error())
			return
		}
		w.log.Debug("The home directory of a hook is removed", "hook", hookName)
	})
}
