package hookset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Broken is a hook file that is left out of a Set: its config call has failed, its configuration is not valid, or it contradicts that of
// another hook.
type Broken struct {
	Name string
	Err  error
}

// Problem is the error without what the hook has printed: pages without a password show it.
func (b *Broken) Problem() string {
	var config *wire.ConfigError
	var call *CallError
	var conflict *conflictError
	switch {
	case errors.As(b.Err, &config):
		text := "the configuration is not valid: " +
			quoted.ReplaceAllString(strings.TrimSpace(config.Violations[0].Path+" "+config.Violations[0].Problem), "…")
		if more := len(config.Violations) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return text
	case errors.As(b.Err, &call):
		return "the call with --config failed: " + call.Err.Error()
	case errors.As(b.Err, &conflict):
		return "it contradicts another hook: " + quoted.ReplaceAllString(conflict.Error(), "…")
	}
	return "it could not be loaded"
}

// quoted is how problems show values.
var quoted = regexp.MustCompile("\"(\\\\.|[^\"\\\\])*\"|`[^`]*`|'[^']*'")

// conflictError is what Options.Agree has found.
type conflictError struct{ error }

// loadSet returns the hooks that can be used, and with leaveOut those that are broken; one that is not left out is an error. With only, no
// other files are called, and all other active hooks stay.
func loadSet(ctx context.Context, o Options, leaveOut bool, only []string) (hooks []*hook.Hook, broken []Broken, err error) {
	dir, files, asked, errs, err := call(ctx, o, func(f File) bool { return only == nil || slices.Contains(only, f.Name) })
	if err != nil {
		return nil, nil, err
	}
	problems := map[string]error{}
	for i, f := range files {
		if problems[f.Name] = errs[i]; errs[i] == nil {
			delete(problems, f.Name)
			hooks = append(hooks, asked[i])
		}
	}
	if leaveOut {
		hooks = o.agreeing(hooks, problems, only != nil)
	} else {
		for _, err := range Check(hooks, o.Shards > 0) {
			problems[err.Hook] = err
		}
	}
	fatal := &LoadError{}
	for _, f := range files {
		switch err := problems[f.Name]; {
		case err == nil:
		case !leaveOut:
			fatal.files, fatal.errs = append(fatal.files, f), append(fatal.errs, err)
		default:
			broken = append(broken, Broken{f.Name, err})
		}
	}
	if len(fatal.errs) > 0 {
		for _, h := range hooks {
			problems[h.Name] = fatal // their config calls count for nothing, too
		}
	}
	if o.Rejected != nil && len(problems) > 0 {
		o.Rejected(slices.Sorted(maps.Keys(problems)))
	}
	if len(fatal.errs) > 0 {
		return nil, nil, fatal
	}
	finish(o, dir, hooks)
	return hooks, broken, nil
}

// agreeing returns the hooks that agree with each other, and adds the problems of the others. The previous version of a hook with a problem
// stays active, and so do all other active hooks with rest: the others have to agree with them.
func (o *Options) agreeing(hooks []*hook.Hook, problems map[string]error, rest bool) []*hook.Hook {
	previous := map[string]*hook.Hook{}
	for _, h := range o.Active {
		previous[h.Name] = h
	}
	unchanged := func(h *hook.Hook) bool { return previous[h.Name] != nil && sameConfiguration(previous[h.Name], h) }
	for {
		staying := slices.DeleteFunc(slices.Clone(o.Active), func(h *hook.Hook) bool {
			return problems[h.Name] == nil && (!rest || slices.ContainsFunc(hooks, func(other *hook.Hook) bool {
				return other.Name == h.Name
			}))
		})
		// Of two that contradict each other, the one that has not changed stays.
		inTurn := slices.Clone(hooks)
		slices.SortStableFunc(inTurn, func(a, b *hook.Hook) int {
			return cmp.Compare(one(!unchanged(a)), one(!unchanged(b)))
		})
		found := o.disagreeing(staying, inTurn)
		if len(found) == 0 {
			return hooks
		}
		maps.Copy(problems, found)
		hooks = slices.DeleteFunc(hooks, func(h *hook.Hook) bool { return found[h.Name] != nil })
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// disagreeing returns the problems of hooks that contradict those that stay, or one that comes before them.
func (o *Options) disagreeing(staying, hooks []*hook.Hook) map[string]error {
	if o.agree(slices.Concat(staying, hooks), "") == nil {
		return nil
	}
	problems, accepted := map[string]error{}, staying
	for _, h := range hooks {
		with := append(slices.Clone(accepted), h)
		if err := o.agree(with, h.Name); err != nil {
			problems[h.Name] = err
			continue
		}
		accepted = with
	}
	return problems
}

// agree returns why hooks contradict each other, preferably as an error of the named one.
func (o *Options) agree(hooks []*hook.Hook, name string) error {
	if errs := Check(hooks, o.Shards > 0); len(errs) > 0 {
		return errs[max(0, slices.IndexFunc(errs, func(e *wire.ConfigError) bool { return e.Hook == name }))]
	}
	if o.Agree == nil {
		return nil
	}
	if err := o.Agree(hooks); err != nil {
		return &conflictError{err}
	}
	return nil
}

// finish gives hooks their paths in the hooks directory, and logs them.
func finish(o Options, dir string, hooks []*hook.Hook) {
	for _, h := range hooks {
		h.Path = filepath.Join(dir, h.Name)
		o.Log.Info("Loaded config", "hook", h.Name, "phase", "config", "value", Summary(h))
		if o.Shards == 0 {
			continue
		}
		for _, w := range ShardWarnings(h) {
			o.Log.Warn("Configuration is accepted, but check this", "hook", h.Name, "phase", "config", "warning", w.String())
		}
	}
}
