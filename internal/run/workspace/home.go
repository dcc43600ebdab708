package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// home returns the home directory of a hook, and makes it if it is missing. Callers hold mu.
func (w *Workspace) home(hookName string) (path string, err error) {
	name, ok := w.homes[hookName]
	if !ok {
		name = "home-" + safe(hookName) + w.unguessable()
		if w.keep {
			name += fmt.Sprintf("-%d", len(w.homes)) // names of hooks may differ in other characters only
		}
		w.homes[hookName] = name
	}
	path = filepath.Join(w.main.path, homesName, name)
	if missing(path) {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot make the home directory of a hook: %w", err)
		}
	}
	return path, nil
}

// Prepare makes what a hook needs besides the files of its runs, and returns the variables that name it: before a call with --config.
func (w *Workspace) Prepare(hookName string) (env []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.prepare(hookName)
}

func (w *Workspace) prepare(hookName string) (env []string, err error) {
	if err := w.restore(); err != nil || w.homes == nil {
		return nil, err
	}
	path, err := w.home(hookName)
	return []string{"HOME=" + path}, err
}

// TenantHome returns the home directory of a tenant, which all of its hooks share, and makes it if it is missing. It is kept until Close.
func (w *Workspace) TenantHome(tenant string) (path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenants == nil {
		w.tenants = map[string]string{}
	}
	if err := w.restore(); err != nil {
		return "", err
	}
	name, ok := w.tenants[tenant]
	if !ok {
		name = "tenant-" + tenant + w.unguessable()
		w.tenants[tenant] = name
	}
	path = filepath.Join(w.main.path, homesName, name)
	if missing(path) {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("cannot make the home directory of a tenant: %w", err)
		}
	}
	return path, nil
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
