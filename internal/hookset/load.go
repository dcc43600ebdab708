// Package hookset loads the set of hooks of a directory: it finds the files, asks each for its configuration, keeps an
// immutable copy of the files, and reports changes of the directory.
//
// Callers may rely on this:
//   - Hooks come in the byte-wise order of their names, whatever order they answered in.
//   - All broken hooks are reported together, each with what it printed. There is no half-loaded result.
//   - A config call has the environment of the hook's runs, and a time limit. It takes its children with it.
//   - A hook that is returned can be run: its filters compile, its crontabs parse. All bindings of a keyed queue agree on its key.
//   - A copy is of the files that were loaded, as a whole, or there is none.
//
// Files are read once by each call of Load. Follow reports when it is time for another one.
package hookset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/script"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// File is a hook file whose configuration is not loaded yet.
type File struct {
	// Name is the path relative to the hooks directory, Path the absolute one.
	Name, Path string
	// Interpreter runs the file, with Path as its last argument, when the file is not executable itself.
	Interpreter []string
}

// Options of Load. Dir, Executor, Filters and Log are required.
type Options struct {
	// Dir is the absolute path of the hooks directory.
	Dir string
	// Mounted makes hooks of scripts in mounted volumes that lack the execute permission, as ConfigMaps do by default:
	// their line "#!" names the program that runs them.
	Mounted bool
	// Env is the environment of config calls, Timeout ends one.
	Env      []string
	Timeout  time.Duration
	Executor *process.Executor
	Filters  *jq.Compiler
	Log      *slog.Logger
	// Prepare, if set, returns more variables for the config call of a hook, before which it is called.
	Prepare func(hook string) (env []string, err error)
	// Rejected, if set, receives the names of the hooks of a set that is not used, after their config calls.
	Rejected func(names []string)
	// SkipExistingV0 keeps the objects that exist at the start from hooks of version 0.
	SkipExistingV0 bool
	// ContextsPerRun is the default of settings.contextsPerRun; hook.AutoContexts means to check the scripts.
	ContextsPerRun int
	// Shards is the number of shards; 0 without them.
	Shards int
	// Parallel is the number of config calls at a time; 0 means twice the number of processors.
	Parallel int
	// from is a copy of Dir that the files are read from; empty means Dir itself. What is logged and returned has the paths
	// of Dir.
	from string
	// call replaces Options.execute in tests.
	call func(ctx context.Context, f File, dir string) (stdout, stderr []byte, err error)
}

// Load returns the hooks below the directory, in order.
func Load(ctx context.Context, o Options) ([]*hook.Hook, error) {
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the hooks directory %s: %w", o.Dir, err)
	}
	root, files, err := find(cmp.Or(o.from, dir), dir, o.Mounted, o.Log)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		o.Log.Warn("No hooks found: put executable files into the hooks directory and start again", "path", o.Dir)
	}
	hooks, problems := call(ctx, o, root, dir, files)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, err := range Check(hooks, o.Shards > 0) {
		problems[err.Hook] = err
	}
	if len(problems) == 0 {
		for _, h := range hooks {
			h.Path = filepath.Join(dir, h.Name)
			o.Log.Info("Loaded config", "hook", h.Name, "phase", "config", "value", Summary(h))
		}
		return hooks, nil
	}
	rejected := &LoadError{}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		if err := problems[f.Name]; err != nil {
			rejected.errs = append(rejected.errs, err)
		}
	}
	if o.Rejected != nil {
		o.Rejected(names) // all config calls count for nothing
	}
	return nil, rejected
}

// call calls the hook files below root with --config. Each is a hook, or its name has a problem. Dir is the hooks directory without links.
func call(ctx context.Context, o Options, root, dir string, files []File) ([]*hook.Hook, map[string]error) {
	hooks, errs := make([]*hook.Hook, len(files)), make([]error, len(files))
	var calls errgroup.Group
	calls.SetLimit(cmp.Or(o.Parallel, 2*runtime.GOMAXPROCS(0)))
	for i, f := range files {
		calls.Go(func() error {
			if ctx.Err() == nil {
				o.Log.Info("Load config", "hook", f.Name, "phase", "config", "path", filepath.Join(dir, f.Name))
				hooks[i], errs[i] = load(ctx, o, root, f)
			}
			return nil
		})
	}
	_ = calls.Wait() // errs has the errors
	problems := map[string]error{}
	for i, err := range errs {
		if err != nil {
			problems[files[i].Name] = err
		}
	}
	return slices.DeleteFunc(hooks, func(h *hook.Hook) bool { return h == nil }), problems
}

// load runs one hook with --config, and logs its warnings.
func load(ctx context.Context, o Options, root string, f File) (*hook.Hook, error) {
	log := o.Log.With("hook", f.Name, "phase", "config")
	a, err := Ask(ctx, o, root, f)
	for _, w := range a.Warnings {
		log.Warn("Configuration is accepted, but check this", "warning", w.String())
	}
	var failed *CallError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &failed):
		log.Error("Hook config output", "value", string(a.Stdout))
		log.Error("Hook config stderr", "value", string(a.Stderr))
		return nil, err
	case err != nil && len(a.Stderr) > 0:
		return nil, fmt.Errorf("%w%s", err, printed(a.Stderr))
	case err != nil:
		return nil, err
	}
	if a.Hook.Settings.OneByOne {
		log.Info("The hook runs once per context: it reads only the first one", "path", a.OneByOne.Path, "line", a.OneByOne.Line,
			"value", a.OneByOne.Text,
			"hint", "settings.contextsPerRun: 0 of the hook, or --contexts-per-run=0, delivers all contexts of a run")
	}
	return a.Hook, nil
}

// Answer is the outcome of a config call.
type Answer struct {
	// Hook is nil if there is an error. There may be warnings nevertheless.
	Hook     *hook.Hook
	Warnings []wire.Warning
	// OneByOne is the place in the script that decides that the hook runs once per context.
	OneByOne       script.Place
	Stdout, Stderr []byte
}

// LoadError has the problems of all hooks that cannot be used.
type LoadError struct{ errs []error }

func (e *LoadError) Unwrap() error { return errors.Join(e.errs...) }

func (e *LoadError) Error() string {
	return fmt.Sprintf("cannot load hooks: %v", errors.Join(e.errs...))
}

// Rejection is why a hook cannot be used. Text is without the values that the hook has printed: pages without a password show it.
type Rejection struct{ Text, Printed string }

// Causes are the problems by hook.
func (e *LoadError) Causes() map[string]Rejection {
	causes := map[string]Rejection{}
	for _, err := range e.errs {
		var config *wire.ConfigError
		var call *CallError
		switch {
		case errors.As(err, &config):
			first := config.Violations[0]
			text := "the configuration is not valid: " + quoted.ReplaceAllString(strings.TrimSpace(first.Path+" "+first.Problem), "…")
			if more := len(config.Violations) - 1; more > 0 {
				text += fmt.Sprintf(" (and %d more)", more)
			}
			causes[config.Hook] = Rejection{Text: text}
		case errors.As(err, &call):
			cause := Rejection{Text: "the call with --config failed: " + call.Err.Error()}
			if exit, failed := errors.AsType[*process.ExitError](call.Err); failed {
				status := exit.Status + exit.Hint()
				cause = Rejection{"the call with --config failed: " + status, strings.TrimSuffix(exit.Cause(""), ": "+status)}
			}
			causes[call.Hook] = cause
		}
	}
	return causes
}

// quoted returns a value as problems show it.
var quoted = regexp.MustCompile("\"(\\\\.|[^\"\\\\])*\"|`[^`]*`|'[^']*'")

// CallError is the error of a config call.
type CallError struct {
	Hook string
	Err  error
	// Configured: the call had printed a valid configuration.
	Configured bool
}

func (e *CallError) Unwrap() error { return e.Err }

func (e *CallError) Error() string {
	return fmt.Sprintf("hook %q: the call with --config failed: %v", e.Hook, e.Reason())
}

// Reason is the end of the call, and its cause.
func (e *CallError) Reason() string {
	reason := e.Err.Error()
	if exit, failed := errors.AsType[*process.ExitError](e.Err); failed {
		reason = exit.Reason()
	}
	if e.Configured {
		reason += ": it has printed a valid configuration; make it exit after that"
	}
	return reason
}

// Ask runs one hook with --config, with root as the working directory. An error is a *CallError or a *wire.ConfigError.
func Ask(ctx context.Context, o Options, root string, f File) (Answer, error) {
	var a Answer
	var failed error
	call := o.call
	if call == nil {
		call = o.execute
	}
	a.Stdout, a.Stderr, failed = call(ctx, f, root)
	h, warnings, err := wire.ParseConfig(f.Name, f.Path, a.Stdout, wire.ConfigOptions{
		JQ: o.Filters, CheckCrontab: checkCrontab, SkipExistingV0: o.SkipExistingV0, ContextsPerRun: o.ContextsPerRun,
	})
	a.Warnings = warnings
	switch {
	case failed != nil:
		return a, &CallError{f.Name, failed, err == nil}
	case err != nil:
		return a, err
	}
	files := ownFiles(root, o.Dir, f.Name)
	h.Printed, h.ShellLibrary = a.Stdout, script.CallsShellLibrary(files[0], files[1:]...)
	if h.Settings.ContextsPerRun == hook.AutoContexts {
		h.Settings.ContextsPerRun = 0
		// A hook with a rate limit relies on merging.
		if at, ok := script.Contexts(files[0], files[1:]...).OneByOne(); ok && h.Merges() && h.Settings.MinInterval == 0 {
			h.Settings.ContextsPerRun, h.Settings.OneByOne, a.OneByOne = 1, true, at
		}
	}
	h.Interpreter = f.Interpreter
	a.Hook = &h
	return a, nil
}

func checkCrontab(text string) error {
	_, err := schedule.Parse(text)
	return err
}

func printed(stderr []byte) string {
	text := strings.TrimSpace(string(stderr))
	if text == "" {
		return ""
	}
	return "\nThe hook wrote to stderr:\n" + text
}
