package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// TrialOptions configure Try.
type TrialOptions struct {
	// Hook is a hook's name, or the path of its file.
	Hook string
	// Input is what it runs on; without a trigger and objects, the first run that it would have in an empty cluster. Operations on given
	// binding contexts are checked and not applied, because the objects that they change may be missing.
	Input testfile.Input
	// Started, if set, receives the binding contexts of each run.
	Started func(contexts []byte)
	// Line receives each line of output. It may be nil.
	Line func(stream, line string)
}

// Try runs one hook in a simulated cluster, as the operator would, and checks the files that it writes as the operator does. With an
// error, the report covers the run so far.
func Try(ctx context.Context, o Options, t TrialOptions) (report TrialReport, err error) {
	report.Output = []TrialLine{} // a list, also in JSON
	defer func() {
		if err != nil {
			report.Error = err.Error()
		}
	}()
	dir, file, err := findHook(o.HooksDir, t.Hook)
	if err != nil {
		return report, err
	}
	o.HooksDir, report.Hook = dir, file.Name
	private, err := prepare(&o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, removeAll(private)) }()
	for name, value := range t.Input.Env {
		o.Env = append(o.Env, name+"="+value)
	}
	discover := discovery(o)
	asked, err := hookset.Ask(ctx, discover, dir, file)
	if err != nil {
		return report, err
	}
	for _, w := range asked.Warnings {
		report.Notes = append(report.Notes, "the configuration: "+w.String())
	}
	run := simulate.Options{
		Filters: discover.Filters, Env: o.Env, Timeout: o.HookTimeout, Workers: o.Workers, ReadyTimeout: o.ConfigTimeout,
		Dir: filepath.Join(private, "run"), Started: t.Started, CheckOnly: t.Input.From != "",
		Line: func(stream, text string) {
			report.Output = append(report.Output, TrialLine{stream, text})
			if t.Line != nil {
				t.Line(stream, text)
			}
		},
	}
	if err := os.Mkdir(run.Dir, 0o700); err != nil {
		return report, err
	}
	chosen := t.Input.Triggered() || len(t.Input.Objects) > 0
	if !chosen {
		report.Notes = append(report.Notes, trigger(&t.Input, asked.Hook)...)
	}
	result, err := simulate.Run(ctx, asked.Hook, t.Input, run)
	if result != nil {
		report.add(result)
	}
	switch {
	case err != nil:
		return report, err
	case result.Runs == 0 && !chosen:
		return report, fmt.Errorf("hook %q has no binding that runs without an object or a request: add %s, or a binding context by --from FILE",
			asked.Hook.Name, triggerOf(asked.Hook))
	case result.Runs == 0:
		report.Notes = append(append(report.Notes, "no event caused a run"), result.Excluded...)
	}
	return report, withStatus(asked.Hook, errors.Join(result.Failed, result.Err))
}

// trigger chooses the first run of a hook without objects and requests. By default it is the Synchronization of all bindings.
func trigger(in *testfile.Input, h *hook.Hook) (notes []string) {
	switch {
	case h.OnStartup != nil:
		in.Startup = true
		return []string{"without --from it runs for onStartup"}
	case len(h.Kubernetes) == 0 && len(h.Schedules) > 0:
		in.Tick = h.Schedules[0].Name
		return []string{fmt.Sprintf("without --from it runs for schedule %q", in.Tick)}
	}
	return nil
}

// withStatus returns the error of a run with the exit status and the cause of the failure.
func withStatus(h *hook.Hook, err error) error {
	if failed, ok := errors.AsType[*process.ExitError](err); ok {
		return fmt.Errorf("hook %q failed: %s", h.Name, failed.Reason())
	}
	return err
}

// findHook returns a hook by its name below the hooks directory, or by its path.
func findHook(hooksDir, name string) (dir string, f hookset.File, err error) {
	path := filepath.Join(hooksDir, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() || filepath.IsAbs(name) {
		path = name
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", f, fmt.Errorf("there is no hook %q: it is neither a file below %s nor a path", name, hooksDir)
	case !info.Mode().IsRegular():
		return "", f, fmt.Errorf("%s is not a file: name a hook", path)
	case info.Mode()&0o111 == 0:
		return "", f, fmt.Errorf("%s is not executable: run chmod +x %s", path, path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", f, err
	}
	if dir, err = filepath.Abs(hooksDir); err != nil {
		return "", f, err
	}
	below, err := filepath.Rel(dir, path)
	if err != nil || strings.HasPrefix(below, "..") {
		dir, below = filepath.Dir(path), filepath.Base(path)
	}
	return dir, hookset.File{Name: below, Path: path}, nil
}

// triggers are the flags of run that give a hook an object or a request, by the kind of its first binding.
var triggers = map[hook.Kind]string{
	hook.OnKubernetes: "--event Added=FILE", hook.OnValidating: "--review CREATE=FILE", hook.OnMutating: "--review CREATE=FILE",
	hook.OnConversion: "--convert VERSION=FILE", hook.OnHTTP: `--http "GET /"`,
}

// triggerOf is the flag for the first binding of a hook.
func triggerOf(h *hook.Hook) string {
	for a := range h.Bindings() {
		if flag := triggers[a.Kind]; flag != "" {
			return flag
		}
	}
	return "--from FILE"
}
