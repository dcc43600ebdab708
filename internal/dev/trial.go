package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/script"
	"github.com/shell-operator/shell-operator/internal/shard"
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
	// Diff reports what operations change.
	Diff bool
	// Started, if set, receives the binding contexts of each run.
	Started func(contexts []byte)
	// Line receives each line of output. It may be nil.
	Line func(stream, line string)
}

// Try runs one hook once, as the operator would, and checks the files that it writes as the operator does. Without Apply
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
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	if t.Input != nil {
		return report, report.simulate(ctx, o, t, dir, file, private)
	}
	cl, err := reach(&o, private, t.Apply)
	if err != nil {
		return report, err
	}
	asked, err := hookset.Ask(ctx, discovery(o), dir, file)
	if err != nil {
		return report, withHint(err, dir, file)
	}
	for _, w := range asked.Warnings {
		report.Notes = append(report.Notes, "the configuration: "+w.String())
	}
	rec, given, err := recording.Open(t.Contexts)
	if err != nil {
		return report, err
	}
	contexts, heads, err := report.contexts(asked.Hook, given)
	if err != nil {
		return report, err
	}
	trial := run.Trial{Hook: asked.Hook, Contexts: contexts, Attempt: rec.FirstAttempt()}
	out, exit, err := report.run(ctx, o, t, trial, private)
	filters := jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath})
	rules := simulate.ResultRules(asked.Hook, heads, err != nil)
	if err != nil {
		report.failed(out, rules, filters)
	} else if err = report.result(out, rules); err == nil {
		err = report.check(asked.Hook, heads[0], out, filters)
	}
	if err != nil && exit == run.Succeeded {
		exit = run.Unapplied
	}
	report.compare(rec, exit, o.Env)
	if !t.Apply {
		return report, err
	}
	return report, errors.Join(err, report.apply(ctx, o, cl, asked.Hook, out, filters, err != nil))
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

// contexts returns the binding context file and the heads of the contexts, at least one.
func (r *TrialReport) contexts(h *hook.Hook, given []byte) (file []byte, heads []wire.ContextHead, err error) {
	if given == nil {
		if given, err = r.defaultContexts(h); err != nil {
			return nil, nil, err
		}
	}
	file, heads, err = wire.ReadContexts(given)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the binding context: %w", err)
	}
	r.Contexts = len(heads)
	r.Notes = append(r.Notes, simulate.UnknownBindings(h, heads)...)
	return file, heads, nil
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

// run is the process. exit is how it ended.
func (r *TrialReport) run(ctx context.Context, o Options, t TrialOptions, trial run.Trial,
	private string) (out run.Outputs, exit string, err error) {
	files, err := workspace.Open(workspace.Options{Dir: private, Log: silent()})
	if err != nil {
		return out, "", err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	environments, _ := kubectl.Environments(o.Env, o.Kubectl, kubectl.Dirs()...) // the complete kubectl does the same
	pool := worker.New(worker.Options{Executor: process.New(process.Options{}), ReadyTimeout: o.ConfigTimeout, Log: silent()})
	defer pool.Close()
	var workers run.Workers
	if o.Workers {
		workers = pool
	}
	runner := run.New(run.Options{
		Executor: pool, Workers: workers, Workspace: files, Log: silent(), Env: o.Env, KubectlEnv: environments, Timeout: o.HookTimeout,
		Shard: func() shard.Shard { return o.Shard },
	})
	var mu sync.Mutex
	line := func(stream string) func([]byte) {
		return func(text []byte) {
			mu.Lock()
			defer mu.Unlock()
			r.Output = append(r.Output, TrialLine{stream, string(text)})
			if t.Line != nil {
				t.Line(stream, string(text))
			}
		}
	}
	trial.Stdout, trial.Stderr = line("stdout"), line("stderr")
	out, result, err := runner.Try(ctx, trial)
	r.Seconds = result.Usage.Wall.Seconds()
	r.CPUSeconds = (result.Usage.User + result.Usage.System).Seconds()
	r.MaxRSSBytes = result.Usage.MaxRSS
	if result.HeldOpen {
		r.Notes = append(r.Notes,
			"the hook has ended, but a process that it left behind kept its output open: redirect the output of background processes")
	}
	exit = (&run.Report{Err: err, Usage: result.Usage}).Exit()
	var failed *process.ExitError
	if errors.As(err, &failed) {
		// What it wrote to stderr has been shown.
		err = fmt.Errorf("hook %q failed: %s%s", trial.Hook.Name, failed.Status, failed.Hint())
	}
	return out, exit, err
}

// result reads the result file.
func (r *TrialReport) result(out run.Outputs, rules wire.ResultRules) error {
	result, err := wire.ParseResult(out.Result, rules)
	if err == nil && out.Result != nil {
		r.Result = wire.FormatResult(result)
	}
	return err
}

// failed keeps what a failed hook has requested nevertheless: its result, and the operations that are applied in any case.
func (r *TrialReport) failed(out run.Outputs, rules wire.ResultRules, filters *jq.Compiler) {
	if err := r.result(out, rules); err != nil {
		r.Notes = append(r.Notes, "the result file is ignored: "+err.Error())
	}
	patches, err := wire.ParsePatches(out.Patch, filters)
	if err != nil {
		return
	}
	for _, p := range patches {
		if p.IgnoreHookError {
			r.Operations = append(r.Operations, trialOperation(&p))
		}
	}
}

// check reads the files that the hook has written.
func (r *TrialReport) check(h *hook.Hook, head wire.ContextHead, out run.Outputs, filters *jq.Compiler) error {
	a, err := apply.Check(h, out, filters)
	for _, w := range a.Warnings {
		r.Notes = append(r.Notes, "the metrics: "+w.String())
	}
	for _, m := range a.Metrics {
		r.Metrics = append(r.Metrics, wire.FormatMetric(m))
	}
	for _, p := range a.Patches {
		r.Operations = append(r.Operations, trialOperation(&p))
	}
	if err != nil {
		return err
	}
	answers := &a.Answers
	err = answers.Check(h, head)
	if answers.Admission != nil {
		r.Admission = wire.FormatAdmission(*answers.Admission)
	}
	if answers.Conversion != nil {
		r.Conversion = wire.FormatConversion(*answers.Conversion)
	}
	if answers.HTTP != nil {
		r.HTTP = wire.FormatHTTP(*answers.HTTP)
	}
	return err
}

// apply changes the cluster as the operator would.
func (r *TrialReport) apply(ctx context.Context, o Options, cl *kube.Cluster, h *hook.Hook, out run.Outputs, filters *jq.Compiler,
	failed bool) error {
	if len(r.Operations) == 0 {
		return nil
	}
	namespace, _ := cl.OwnNamespace(o.Installation.Namespace)
	e, err := apply.New(apply.Options{Settings: o.Changes, Instance: cl.Instance(o.Installation), Namespace: namespace,
		Client: o.Changes.Client(cl.Config), Filters: filters, Log: silent()})
	if err != nil {
		return err
	}
	if failed {
		_, err = e.ApplyFailed(ctx, silent(), h, out, nil, nil)
	} else {
		_, err = e.Apply(ctx, silent(), h, out, nil, nil)
	}
	e.Flush(ctx)
	r.Applied = err == nil && !o.Changes.DryRun
	return err
}
