package debug

import (
	"net/http"
	"path"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Hooks are the active hooks, as requests name them.
type Hooks struct {
	// Active returns them in order, or nil while they are being loaded.
	Active func() []*hook.Hook
	// Skipped is why a file of the hooks directory is no hook, and the next step; empty if it is one or if there is no such file.
	Skipped func(name string) (reason, hint string)
}

func (hs *Hooks) all() ([]*hook.Hook, error) {
	hooks := hs.Active()
	if hooks == nil {
		return nil, stillLoading()
	}
	return hooks, nil
}

func stillLoading() *Problem {
	return refuse(http.StatusServiceUnavailable, "hooks are still being loaded").hint("try again in a moment")
}

// find returns the hook that a request names: by its name, or by the beginning of its name or of its file's name if only one hook has that.
func (hs *Hooks) find(r request) (*hook.Hook, error) {
	hooks, err := hs.all()
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if h.Name == r.name {
			return h, nil
		}
	}
	if reason, hint := hs.Skipped(r.name); reason != "" {
		return nil, refuse(http.StatusBadRequest, "%q is no hook, the file is skipped: %s", r.name, reason).hint("%s", hint)
	}
	var matching []*hook.Hook
	var names, all []string
	for _, h := range hooks {
		all = append(all, h.Name)
		if strings.HasPrefix(h.Name, r.name) || strings.HasPrefix(path.Base(h.Name), r.name) {
			matching, names = append(matching, h), append(names, h.Name)
		}
	}
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) > 1:
		return nil, refuse(http.StatusBadRequest, "%d hooks begin with %q", len(names), r.name).hint("use the whole name, %s",
			strings.Join(names[:min(5, len(names))], ", "))
	}
	return nil, refuse(http.StatusBadRequest, "there is no hook %q", r.name).
		meant(r.name, all, "shell-operator hook list shows all hooks, status what removed ones have left").as(unknownHook)
}

// onHook is an answer about the hook that the request names.
func onHook[A any](hooks *Hooks, about func(request, *hook.Hook) (A, error)) func(request) (A, error) {
	return func(r request) (none A, err error) {
		h, err := hooks.find(r)
		if err != nil {
			return none, err
		}
		return about(r, h)
	}
}

// inQuery is the name of the hook in the query of a request; empty if there is none.
func (hs *Hooks) inQuery(r request) (string, error) {
	if r.name = r.URL.Query().Get("hook"); r.name == "" {
		return "", nil
	}
	h, err := hs.find(r)
	if err != nil {
		return "", err
	}
	return h.Name, nil
}
