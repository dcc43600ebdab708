// Package simulate runs a hook on events of a simulated cluster: package watch makes the events, a queue orders and merges them, runs
// deliver them, and effects change the cluster, which is in memory. Or it runs a hook with given binding contexts, without a cluster.
//
// Callers may rely on this:
//   - Events are ordered and merged, and requests sent and answered, by the code of the operator.
//   - The same input gives the same result, as far as the hook does.
//
// Non-goals: controllers, and waiting for them.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/finalizer"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// simulation is one simulated cluster with one hook.
type simulation struct {
	Options
	in      testfile.Input
	hook    *hook.Hook
	server  *memory.Server
	watched *watch.Simulation
	gates   *finalizer.Finalizers
	// requests answers the operator's requests.
	requests http.RoundTripper
	// permissions checks the requests of the operator; nil without a role.
	permissions *permissions
	runner      *run.Runner
	pending     *pending.Ledger
	effects     *apply.Effects

	// listening: a change makes events. Changes by the hook itself make none.
	listening bool
	waiting   []*simulatedTask
	// changes counts the changes of objects.
	changes int
	// contexts is the text of Input.From, heads has the parts that the program reads.
	contexts []byte
	heads    []wire.ContextHead
	// absent are objects of Input.Objects that exist from their Added on.
	absent []memory.Object
	// sets have the objects of the last Syncs. Touched objects were deleted or modified by the last events.
	sets    []*effect.ObjectSet
	touched []memory.Object
	result  Result
	mu      sync.Mutex // guards the output of the run
}

// Options configure a simulation.
type Options struct {
	Filters *jq.Compiler
	// Env is the environment of the hook but for what a simulation sets itself.
	Env     []string
	Timeout time.Duration
	// Workers lets a worker serve the runs of a hook with settings.worker; ReadyTimeout limits its start.
	Workers      bool
	ReadyTimeout time.Duration
	// Dir is a private directory, which the caller removes.
	Dir string
	// Line receives output, Started the binding contexts of each run. Both may be nil.
	Line    func(stream, line string)
	Started func(contexts []byte)
	// Namespace is the namespace of the operator; empty means "default". Role has its permissions; nil means that it has all.
	Namespace string
	Role      *Role
	// CheckOnly: operations are checked, and not applied.
	CheckOnly bool
}

// Result is what came of a simulation.
type Result struct {
	Runs           int
	Err            error
	Exit           int
	Stdout, Stderr []string
	Patches        []effect.Patch
	// Despite are the operations of the last failed run that are applied nevertheless.
	Despite    []effect.Patch
	Metrics    []effect.Metric
	Calls      [][]string
	Admission  *wire.Admission
	Conversion *effect.ConversionAnswer
	HTTP       *wire.HTTP
	// Failed is the error of a run without a further attempt, if another run followed; until one does, the error is in exhausted.
	Failed    error
	exhausted error
	// Excluded are the reasons why changes were no events.
	Excluded []string
	// Ignored are the events of the input that caused no run, with the reasons.
	Ignored []string
	Notes   []string
	// Warnings are mistakes that fail no run: the operator would log them.
	Warnings []string
	Usage    process.Usage
	// File is the result file of the last run.
	File *effect.Result
	// Recording is what Input.From names, if it is a recording.
	Recording *recording.Recording
	// Sent are the operations with what they need. Denied is what the role does not grant of that, and of what the bindings need: without the
	// latter nothing was run.
	Sent   []apply.Sent
	Denied []rbac.Permission
	// Escalations are for the Roles that the hook has written, and for those that its bindings refer to.
	Escalations []rbac.Permission

	// server is the cluster at the end, seen are the objects that changed.
	server *memory.Server
	seen   []memory.Object
}

// Guessed reports whether only the kind of a resource was known, and no CRD.
func (r *Result) Guessed(group, resource string) bool {
	return r.server.Guessed(schema.GroupResource{Group: group, Resource: resource})
}

// Resolve returns the resource of a kind, and whether no CRD has confirmed it.
func (r *Result) Resolve(apiVersion, kind string) (found kube.Resource, guessed bool) {
	k, known := r.server.Resolve(apiVersion, kind)
	return k.Resource, k.Guessed || !known
}

// simulatedTask is a task of the operator with a limit of attempts and without a rate limit.
type simulatedTask struct {
	*run.Task
	of       *simulation
	key      string
	attempts int
}

var (
	_ queue.Starter  = (*simulatedTask)(nil)
	_ queue.Splitter = (*simulatedTask)(nil)
)

func (t *simulatedTask) Ready() (time.Duration, func()) { return 0, nil }
func (t *simulatedTask) Policy() queue.Policy           { return queue.Policy{} }

func (t *simulatedTask) Absorb(behind queue.Task) bool {
	next, ok := behind.(*simulatedTask)
	return ok && t.Task.Absorb(next.Task)
}

// Starting implements queue.Starter.
func (t *simulatedTask) Starting(s queue.Start) { t.Task.Starting(s.Key, t.attempts, s.Waited) }

// Rest implements queue.Splitter.
func (t *simulatedTask) Rest() queue.Task {
	if rest := t.Task.Rest(); rest != nil {
		return &simulatedTask{Task: rest, of: t.of, key: t.key, attempts: t.attempts}
	}
	return nil
}

// limit is the number of attempts that the input permits, or fewer, if the hook limits them.
func (t *simulatedTask) limit() int {
	attempts := max(1, t.of.in.Attempts)
	if p := t.Task.Policy(); p.Given && p.Limit > 0 {
		return min(attempts, p.Limit)
	}
	return attempts
}

func (t *simulatedTask) Run(ctx context.Context) error {
	err := t.Task.Run(ctx)
	t.attempts++
	var failure queue.Failure
	gaveUp := errors.As(err, &failure) && failure.GiveUp()
	switch {
	case err == nil:
		return nil
	case !gaveUp && t.attempts < t.limit() && ctx.Err() == nil:
		return errors.New(err.Error()) // no delay that the hook has requested
	}
	t.of.result.exhausted = err
	return nil
}

// Run runs a hook for an input. An error is about the input; the result has what the hook did, and is nil if nothing was started.
func Run(ctx context.Context, h *hook.Hook, in testfile.Input, o Options) (*Result, error) {
	s := &simulation{Options: o, in: in, hook: h}
	if err := s.readFrom(); err != nil {
		return nil, err
	}
	s.serve()
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	s.Env = env
	if err := s.connect(); err != nil {
		return nil, err
	}
	changes, err := kube.NewClient(kube.Over(s.requests))
	if err != nil {
		return nil, err
	}
	sink, gates := simulatedSink{simulation: s}, finalizer.Options{Changes: changes, Manager: "shell-operator", InFlight: 1}
	s.watched = watch.NewSimulation(watch.SimulationOptions{JQ: o.Filters, Sink: sink, Meter: sink,
		Resolve: s.resolve, Excluded: s.exclude, Guard: gates.Gate})
	s.gates = finalizer.New(gates, s.watched)
	defer func() {
		s.result.Sent, _ = s.effects.Sent()
		s.result.Denied = s.permissions.denied(s.result.Sent)
	}()
	w, err := workspace.Open(workspace.Options{Dir: s.Dir, Log: silent()})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	pool := worker.New(worker.Options{Executor: process.New(process.Options{}), ReadyTimeout: s.ReadyTimeout, Log: silent()})
	defer pool.Close()
	s.pending = pending.New(pending.Options{Objects: s.watched, Finalizers: simulatedFinalizers{s}})
	running := run.Options{Snapshots: s.watched, Deferred: s.pending,
		Companions: append([]run.Companion{observer{s},
			&run.Conditions{Follow: s.watched.Follow, Change: func(ctx context.Context, log *slog.Logger, r run.Reporting) error {
				_, err := s.effects.Change(ctx, log, apply.Run{Hook: r.Hook, Identify: r.Identify, Follow: r.Follow}, r.Patches, nil)
				return errors.Join(err, s.refresh(ctx))
			}},
		}, s.pending.Companions()...),
		Effects: simulatedEffects{s}, Workspace: w, Executor: simulatedExecutor{s, pool}, Log: silent(),
		Env: func(*hook.Hook) []string { return s.Env }, Timeout: s.Timeout}
	if s.Workers {
		running.Workers = pool
	}
	s.runner = run.New(running)
	s.runner.Add([]*hook.Hook{h})
	if err := s.start(ctx); err != nil || s.permissions.missAny() { // the operator would not enable the bindings
		return &s.result, err
	}
	if err := s.trigger(ctx); err != nil {
		return &s.result, err
	}
	s.result.Calls, err = readCalls(s.callsFile())
	return &s.result, err
}

// serve starts the simulated cluster.
func (s *simulation) serve() {
	server := memory.Options{Kinds: memory.BuiltIns()}
	if s.in.FieldValidation == "Warn" {
		server.Warn = func(text string) { s.result.Notes = append(s.result.Notes, text) }
	}
	s.server = memory.New(server)
	s.result.server = s.server
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// connect directs operations to the simulated cluster.
func (s *simulation) connect() (err error) {
	// No controller removes finalizers here, so there is nothing to wait for.
	o := apply.Options{
		DeleteTimeout: time.Millisecond, Instance: "test", Namespace: cmp.Or(s.Namespace, "default"),
		Filters: s.Filters, Log: silent(), Now: memory.Now, Simulated: true,
	}
	s.requests = transport{s.server}
	if s.Role != nil {
		s.permissions = &permissions{role: s.Role, user: "system:serviceaccount:" + o.Namespace + ":shell-operator", next: s.requests}
		s.requests = s.permissions
	}
	o.Client = kube.Over(s.requests)
	s.effects, err = apply.New(o)
	return err
}

// observer is the Companion that records the ends of runs.
type observer struct{ *simulation }

func (observer) Joins(*hook.Hook, bool) bool { return true }

func (s observer) Done(_ context.Context, a *run.Attempt, _ error) {
	r := &a.Report
	if a.Task.Len() == 0 || r.Interrupted {
		return
	}
	s.result.Err, s.result.Exit = r.Err, exitOf(r.Err)
	s.result.Usage, s.result.File = r.Usage, nil
	if !reflect.ValueOf(r.Result).IsZero() {
		s.result.File = &r.Result
	}
	if r.InvalidResult != nil {
		s.warn("the result file is ignored: %v", r.InvalidResult)
	}
}

// exitOf is the exit status of a run as a shell has it.
func exitOf(err error) int {
	status := 0
	exit, failed := errors.AsType[*process.ExitError](err)
	switch {
	case errors.As(err, new(*process.TimeoutError)):
		return 124
	case errors.As(err, new(*process.WorkerError)):
		return 255
	case errors.As(err, new(*process.StartError)):
		return 127
	case !failed:
		return 0
	case exit.Status == "signal: killed":
		return 137
	case exit.Status == "signal: terminated":
		return 143
	}
	if _, err := fmt.Sscanf(exit.Status, "exit status %d", &status); err != nil {
		return 255
	}
	return status
}

// start loads the objects and enables the bindings.
func (s *simulation) start(ctx context.Context) error {
	manifests, err := testfile.ReadManifests(s.in.Objects)
	if err != nil {
		return err
	}
	if s.contexts != nil {
		if manifests, err = contextObjects(s.contexts); err != nil {
			return err
		}
	}
	known := manifests
	for _, ev := range s.in.Events {
		if testfile.IsManifest(ev.Ref) { // an optional kind is installed if an object is of it
			added, err := testfile.ReadManifests([]string{ev.Ref})
			if err != nil {
				return err
			}
			known = slices.Concat(known, added)
		}
	}
	if err := s.learn(known...); err != nil {
		return err
	}
	if s.contexts != nil { // they are what the bindings would make
		err := s.create(manifests)
		s.changed()
		return err
	}
	if err := s.learnBindings(); err != nil {
		return err
	}
	if err := s.permissions.checkBindings(s.hook, s.resolve); err != nil || s.permissions.missAny() {
		return err
	}
	if err := s.create(manifests); err != nil {
		return err
	}
	s.changed()
	for _, o := range s.server.Objects() {
		o, _ = s.server.Get(o)
		if err := s.watched.Set(ctx, o.Kind.Resource, o.JSON); err != nil {
			return err
		}
	}
	if err := s.watched.Enable(ctx, s.hook); err != nil {
		return err
	}
	return s.refresh(ctx) // the finalizers
}

func (s *simulation) exclude(h *hook.Hook, index int, reason string) {
	if s.listening {
		s.result.Excluded = append(s.result.Excluded, fmt.Sprintf("binding %q: %s", h.Kubernetes[index].Name, reason))
	}
}

// simulatedSink receives the events of the bindings.
type simulatedSink struct {
	*simulation
	watch.NoMeter
}

func (s simulatedSink) Keep(text []byte) event.Payload     { return event.Memory(slices.Clone(text)) }
func (s simulatedSink) Objects(*hook.Hook, int, int)       {}
func (s simulatedSink) Gone(*hook.Hook, int, event.Object) {}
func (s simulatedSink) FilterFailed(h *hook.Hook, i int, err error) {
	s.warn("binding %q: jqFilter failed, its result is null: %v", h.Kubernetes[i].Name, err)
}

func (s simulatedSink) KeyFailed(h *hook.Hook, i int, err error) {
	s.warn("binding %q: queue.key failed, the key is that of the object: %v", h.Kubernetes[i].Name, err)
}

// warn adds a warning, once.
func (s *simulation) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.result.Warnings, text) {
		s.result.Warnings = append(s.result.Warnings, text)
	}
}

func (s simulatedSink) Event(ev event.Event) {
	if s.listening {
		s.add(ev)
	}
}

// add queues an event, unless it is for another binding than the chosen one.
func (s *simulation) add(ev event.Event) {
	if name := ev.Binding().Name; s.in.Binding != "" && name != s.in.Binding {
		s.result.Excluded = append(s.result.Excluded, fmt.Sprintf("binding %q: only %q is chosen", name, s.in.Binding))
		return
	}
	key := ev.LaneKey(hook.LanesOf([]*hook.Hook{s.hook})[ev.Queue()])
	s.waiting = append(s.waiting, &simulatedTask{Task: s.runner.Task(ev), of: s, key: key})
}

// drain runs what waits. Queues run one after the other, so that the order of the runs is always the same.
func (s *simulation) drain(ctx context.Context) error {
	tasks := s.waiting
	s.waiting = nil
	for len(tasks) > 0 && ctx.Err() == nil {
		name := tasks[0].Queue()
		stop, cancel := context.WithCancel(ctx)
		queues := queue.NewSet(queue.Options{
			Backoff: func(int) time.Duration { return 0 }, OnEnd: func(string) { cancel() },
			OnPanic: func(_ string, _ queue.Task, reason any, _ []byte) { panic(reason) },
		})
		tasks = slices.DeleteFunc(tasks, func(t *simulatedTask) bool {
			same := t.Queue() == name
			if same {
				queues.Add(name, t.key, t)
			}
			return same
		})
		queues.Keep(map[string]queue.Shape{}) // it ends when it is empty
		_ = queues.Run(stop, ctx)
		cancel()
	}
	return ctx.Err()
}
