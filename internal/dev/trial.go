package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/script"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// TrialOptions are those of Try.
type TrialOptions struct {
	// Hook is a hook's name, or the path of its file.
	Hook string
	// Contexts is a recording or a saved binding context file; nil means contexts that fit the hook.
	Contexts []byte
	// Apply sends the operations to the cluster.
	Apply bool
	// Input, if set, runs the hook on events of a simulated cluster instead.
	Input *testfile.Input
	// Started, if set, receives the binding contexts of each run.
	Started func(contexts []byte)
	// Line receives each line of output. It may be nil.
	Line func(stream, line string)
}

// Try runs one hook, as the operator would, and checks the files that it writes as the operator does. Without Apply
// no operation is sent. With an error, the report covers the run so far.
func Try(ctx context.Context, o Options, t TrialOptions) (report TrialReport, err error) {
	report = TrialReport{Output: []TrialLine{}, Operations: []TrialOperation{}, Metrics: []TrialMetric{}} // lists, also in JSON
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
	var cl *kube.Cluster
	if t.Input != nil {
		for name, value := range t.Input.Env {
			o.Env = append(o.Env, name+"="+value)
		}
	} else if cl, err = reach(&o, private, t.Apply); err != nil {
		return report, err
	}
	discover := discovery(o)
	asked, err := hookset.Ask(ctx, discover, dir, file)
	if err != nil {
		return report, withHint(err, dir, file)
	}
	for _, w := range asked.Warnings {
		report.Notes = append(report.Notes, "the configuration: "+w.String())
	}
	run := simulate.Options{
		Filters: discover.Filters, Env: o.Env, Timeout: o.HookTimeout, Workers: o.Workers, ReadyTimeout: o.ConfigTimeout,
		Dir: filepath.Join(private, "run"), Started: t.Started,
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
	var result *simulate.Result
	if t.Input != nil {
		result, err = simulate.Run(ctx, asked.Hook, *t.Input, run)
	} else {
		result, err = report.replay(ctx, o, t, cl, asked.Hook, run)
	}
	if result != nil {
		report.add(result)
	}
	if err != nil {
		return report, err
	}
	if t.Input != nil && result.Runs == 0 {
		report.Notes = append(append(report.Notes, "no event caused a run"), result.Excluded...)
	}
	report.compare(result)
	err = withoutOutput(asked.Hook, errors.Join(result.Failed, result.Err))
	report.Applied = t.Apply && err == nil && len(report.Operations) > 0 && !o.Changes.DryRun
	return report, err
}

// replay runs the hook with given binding contexts, or with those that an operator in an empty cluster would begin with.
func (r *TrialReport) replay(ctx context.Context, o Options, t TrialOptions, cl *kube.Cluster, h *hook.Hook,
	run simulate.Options) (_ *simulate.Result, err error) {
	contexts := t.Contexts
	if contexts == nil {
		if contexts, err = r.defaultContexts(h); err != nil {
			return nil, err
		}
	}
	run.KubectlEnv, _ = kubectl.Environments(o.Env, o.Kubectl, kubectl.Dirs()...) // the complete kubectl does the same
	if t.Apply {
		namespace, _ := cl.OwnNamespace(o.Installation.Namespace)
		run.Effects, err = apply.New(apply.Options{Settings: o.Changes, Instance: cl.Instance(o.Installation), Namespace: namespace,
			Client: o.Changes.Client(cl.Config), Filters: run.Filters, Log: silent()})
		if err != nil {
			return nil, err
		}
	}
	return simulate.Replay(ctx, h, contexts, run)
}

// withoutOutput returns the error of a run without what the hook wrote to stderr, which has been shown.
func withoutOutput(h *hook.Hook, err error) error {
	if failed, ok := errors.AsType[*process.ExitError](err); ok {
		return fmt.Errorf("hook %q failed: %s%s", h.Name, failed.Status, failed.Hint())
	}
	return err
}

// withHint adds to the error of a config call that a library is missing here, which is in the hooks directory.
func withHint(err error, dir string, file hookset.File) error {
	text, readErr := os.ReadFile(file.Path)
	if readErr != nil || !errors.As(err, new(*hookset.CallError)) {
		return err
	}
	s := script.Source{Path: file.Path, Text: text}
	if hint := elsewhere(lint.FindLibraries([]script.Source{s}), s.Path, dir); hint != "" {
		return fmt.Errorf("%w\n%s", err, hint)
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

// reach adds the variables of the cluster to the environment. A cluster is optional unless it was named or is
// required.
func reach(o *Options, dir string, required bool) (*kube.Cluster, error) {
	cl, err := kube.Connect(o.Cluster, dir)
	if err != nil {
		if required || o.Cluster.Kubeconfig != "" || o.Cluster.Context != "" {
			return nil, err
		}
		return nil, nil
	}
	o.Env = append(o.Env, cl.Env...)
	return cl, nil
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

// defaultContexts are what an operator in an empty cluster would begin with.
func (r *TrialReport) defaultContexts(h *hook.Hook) ([]byte, error) {
	var ev *event.Event
	switch {
	case h.OnStartup != nil:
		ev = &event.Event{Type: event.Startup, Hook: h}
		r.Notes = append(r.Notes, "without --from it runs for onStartup")
	case len(h.Kubernetes) > 0 && h.Kubernetes[0].Initial == hook.InitialList:
		ev = &event.Event{Type: event.Synchronization, Hook: h}
		r.Notes = append(r.Notes, fmt.Sprintf("without --from it runs for a Synchronization of binding %q without objects", h.Kubernetes[0].Name))
	case len(h.Schedules) > 0:
		ev = &event.Event{Type: event.Tick, Hook: h}
		r.Notes = append(r.Notes, fmt.Sprintf("without --from it runs for schedule %q", h.Schedules[0].Name))
	default:
		return nil, fmt.Errorf("hook %q has no binding that runs without an object or a request: add %s, or a binding context by --from FILE",
			h.Name, triggerOf(h))
	}
	c := wire.Context{Event: *ev, Objects: event.NoObjects{}}
	for _, index := range ev.Binding().Includes {
		c.Snapshots = append(c.Snapshots, wire.NamedSnapshot{Name: h.Kubernetes[index].Name, Snapshot: event.NoObjects{}})
	}
	var b strings.Builder
	err := wire.WriteContexts(&b, h.Contexts, slices.Values([]wire.Context{c}))
	return []byte(b.String()), err
}
