package workbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/wire"
	"github.com/shell-operator/shell-operator/internal/workbench/memory"
	"github.com/shell-operator/shell-operator/internal/workbench/rbac"
	"github.com/shell-operator/shell-operator/internal/workbench/testfile"
)

// simulation runs a hook on events of a simulated cluster: events come from package watch, queues merge them, runs deliver them, and
// effects change the cluster.
type simulation struct {
	simulationOptions
	in     testfile.Input
	hook   *hook.Hook
	server *memory.Server
	// At most one of live and origin is set: the server mirrors a real cluster, or reads from it.
	live    *live
	origin  *origin
	watched *watch.Simulation
	runner  *run.Runner
	effects *apply.Effects
	// dry sends operations to the real cluster as dry runs.
	dry     *apply.Effects
	dryRuns *dryRuns

	// listening: a change makes events. Changes by the hook itself make none.
	listening bool
	// collecting: differences are part of the result.
	collecting bool
	waiting    []*simulatedTask
	// absent are objects of Input.Objects that exist from their Added on.
	absent map[string][]byte
	// recording is that of Input.From, if that is one.
	recording *recording.Recording
	result    simulated
	mu        sync.Mutex // guards the output of the run
}

type simulationOptions struct {
	filters *jq.Compiler
	// env is the environment of the hook but for what a simulation sets itself.
	env     []string
	timeout time.Duration
	// dir is a private directory, which the caller removes.
	dir string
	// line receives output, started the binding contexts of each run. Both may be nil.
	line    func(stream, line string)
	started func(contexts []byte)
	// cluster is a real one: read for a simulation, or, with store, in place of the simulated one.
	cluster *kube.Cluster
	store   bool
	// changes are those of the operator.
	changes apply.Settings
	// diff collects what operations change.
	diff bool
}

// simulated is what came of a simulation.
type simulated struct {
	runs           int
	err            error
	exit           int
	stdout, stderr []string
	patches        []effect.Patch
	// despite are the operations of the last failed run that are applied nevertheless.
	despite                     []effect.Patch
	metrics                     []effect.Metric
	calls                       [][]string
	admission, conversion, http map[string]any
	// exhausted is the error of a run without a further attempt, failed that of one that was followed by another run.
	exhausted, failed error
	// excluded are the reasons why changes were no events.
	excluded []string
	notes    []string
	usage    process.Usage
	// file is the result file of the last run.
	file  *recording.File
	diffs []TrialDiff
}

// simulatedTask is a task of the operator with a limit of attempts and without a rate limit.
type simulatedTask struct {
	*run.Task
	of       *simulation
	key      string
	attempts int
}

func (t *simulatedTask) Ready() (time.Duration, func()) { return 0, nil }
func (t *simulatedTask) Policy() queue.Policy           { return queue.Policy{} }

func (t *simulatedTask) Absorb(behind queue.Task) bool {
	next, ok := behind.(*simulatedTask)
	return ok && t.Task.Absorb(next.Task)
}

// limit is the number of attempts: that of the input, if the hook does not limit them further.
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

// simulate runs a hook for an input. Errors are those of the input; what the hook does is in the result.
func simulate(ctx context.Context, h *hook.Hook, in testfile.Input, o simulationOptions) (s *simulation, err error) {
	s = &simulation{simulationOptions: o, in: in, hook: h, absent: map[string][]byte{}, server: memory.New(builtInKinds())}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	files, err := workspace.Open(workspace.Options{Dir: filepath.Join(o.dir, "tmp"), Log: silent()})
	if err != nil {
		return nil, err
	}
	defer files.Close()
	if err := s.connect(); err != nil {
		return nil, err
	}
	if s.live != nil {
		defer func() { err = errors.Join(err, s.live.clean(ctx)) }()
	}
	if err := s.connectEffects(); err != nil {
		return nil, err
	}
	to := kube.Over(s.server)
	switch {
	case s.live != nil:
		to = s.live.Config
	case s.origin != nil:
		to = kube.Over(s.origin)
	}
	changes, err := kube.NewClient(to)
	if err != nil {
		return nil, err
	}
	s.watched = watch.NewSimulation(watch.SimulationOptions{JQ: o.filters, Sink: simulatedSink{s}, Resolve: s.resolve, Excluded: s.exclude, Changes: changes})
	s.runner = run.New(run.Options{
		Executor: simulatedExecutor{s, process.New(process.Options{})}, Snapshots: s.watched, Finalizers: simulatedFinalizers{s}, Effects: simulatedEffects{s}, Workspace: files,
		Log: silent(), Env: env, Timeout: o.timeout, Observe: s.observe,
	})
	s.runner.Add([]*hook.Hook{h})
	if err := s.start(ctx); err != nil {
		return s, err
	}
	if err := s.trigger(ctx); err != nil {
		return s, err
	}
	s.result.calls, err = readCalls(s.callsFile())
	return s, err
}

// connect connects the simulated cluster with a real one, if there is one.
func (s *simulation) connect() (err error) {
	switch {
	case s.cluster == nil:
	case s.store:
		s.live, err = newLive(s.cluster, s.server)
	default:
		var c *cluster
		if c, err = newCluster(s.cluster); err == nil {
			s.origin = newOrigin(c, s.server)
		}
	}
	return err
}

// connectEffects directs operations to the cluster of the case.
func (s *simulation) connectEffects() (err error) {
	// No controller removes finalizers here, so there is nothing to wait for.
	o := apply.Options{
		Settings: apply.Settings{DeleteTimeout: time.Millisecond}, Instance: "test", Namespace: "default", Client: kube.Over(s.server), Filters: s.filters, Log: silent(), Now: memory.Now,
	}
	switch {
	case s.live != nil:
		o.Settings, o.Client, o.Now = s.changes, s.live.Config, nil
		o.DryRun = false
	case s.origin != nil:
		o.Client = kube.Over(s.origin)
	}
	if s.effects, err = apply.New(o); err != nil || s.origin == nil || !s.diff {
		return err
	}
	o.Settings = s.changes
	o.DryRun, o.Client, s.dryRuns = true, s.changes.Client(s.origin.Config), &dryRuns{}
	o.Client.Wrap(func(next http.RoundTripper) http.RoundTripper { s.dryRuns.next = next; return s.dryRuns })
	s.dry, err = apply.New(o)
	return err
}

// observe records the end of a run.
func (s *simulation) observe(r run.Report) {
	s.result.err, s.result.exit = r.Err, exitOf(r.Err)
	s.result.usage = r.Usage
	s.result.file = recording.FileOf(r.Result)
}

// exitOf is the exit status of a run as a shell has it.
func exitOf(err error) int {
	var exit *process.ExitError
	var timeout *process.TimeoutError
	var start *process.StartError
	status := 0
	switch {
	case errors.As(err, &timeout):
		return 124
	case errors.As(err, &start):
		return 127
	case !errors.As(err, &exit):
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
	manifests, err := readManifests(s.in.Objects)
	if err != nil {
		return err
	}
	if s.in.From != "" {
		file, _, err := s.readFrom()
		if err != nil {
			return err
		}
		if manifests, err = contextObjects(file); err != nil {
			return err
		}
	}
	switch {
	case s.live != nil:
		err = s.prepareLive(ctx, manifests)
	case s.origin != nil:
		err = s.origin.load(ctx, s.hook)
	default:
		err = s.learn(manifests...)
	}
	if err != nil {
		return err
	}
	for _, k := range s.hook.Kubernetes {
		if _, err := s.resolve(k.APIVersion, k.Kind); err != nil {
			return fmt.Errorf("binding %q: %w", k.Name, err)
		}
	}
	if err := s.create(ctx, manifests); err != nil {
		return err
	}
	s.server.Changes()
	for _, o := range s.server.Objects() {
		if err := s.watched.Set(ctx, o.Kind.Resource, o.JSON); err != nil {
			return err
		}
	}
	if err := s.watched.Enable(ctx, s.hook); err != nil {
		return err
	}
	return s.refresh(ctx) // the finalizers
}

// create creates the objects, except for those that an event adds later.
func (s *simulation) create(ctx context.Context, manifests []manifest) error {
	scratch := memory.New(nil) // to find what Added names
	refs := make([]string, len(manifests))
	for i, m := range manifests {
		h, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if k, known := s.server.Resolve(h.APIVersion, h.Kind); known {
			scratch.Learn(k)
		}
		o, err := scratch.Add(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		refs[i] = o.Ref()
	}
	for _, ev := range s.in.Events {
		if ev.Type != "Added" || isManifest(ev.Ref) {
			continue
		}
		if o, err := scratch.Find(ev.Ref); err == nil {
			s.absent[o.Ref()] = o.JSON
		}
	}
	for i, m := range manifests {
		later := s.absent[refs[i]] != nil
		if later && s.live != nil {
			continue
		}
		if err := s.createObject(ctx, m.text); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if later { // it has been there for its uid
			o, err := s.server.Find(refs[i])
			if err != nil {
				return err
			}
			s.server.Remove(o)
		}
	}
	return nil
}

// prepareLive checks the objects of the case, those of events included, and creates their namespaces.
func (s *simulation) prepareLive(ctx context.Context, manifests []manifest) error {
	all := slices.Clone(manifests)
	for _, ev := range s.in.Events {
		if ev.Type == "Added" && isManifest(ev.Ref) {
			added, err := readManifests([]string{ev.Ref})
			if err != nil {
				return err
			}
			all = append(all, added...)
		}
	}
	return s.live.prepare(ctx, all)
}

// createObject creates an object.
func (s *simulation) createObject(ctx context.Context, text []byte) error {
	if s.live != nil {
		return s.live.add(ctx, text)
	}
	_, err := s.server.Add(text)
	return err
}

// manifest is an object and the file that it is from.
type manifest struct {
	path string
	text []byte
}

// readManifests reads files, and all manifests below directories.
func readManifests(paths []string) (all []manifest, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fmt.Errorf("cannot read the objects: %w", err)
			case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case d.IsDir(), file != path && !isManifest(file):
				return nil
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("cannot read the objects: %w", err)
			}
			objects, err := testfile.Manifests(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, o := range objects {
				all = append(all, manifest{file, o})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// learn serves the kinds of manifests: those of CRDs among them, and guessed ones.
func (s *simulation) learn(manifests ...manifest) error {
	for _, m := range manifests {
		for _, k := range crdKinds(m.text) {
			s.server.Learn(k)
		}
	}
	for _, m := range manifests {
		head, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if err := s.guess(head.APIVersion, head.Kind, head.Metadata.Namespace != ""); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// guess serves a kind that is neither built in nor defined.
func (s *simulation) guess(apiVersion, kind string, namespaced bool) error {
	if _, known := s.server.Resolve(apiVersion, kind); known {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if gv.Group == "" {
		return fmt.Errorf("the kind %q is not built into Kubernetes and has no group", kind)
	}
	known, err := rbac.Known(apiVersion, kind)
	if err != nil {
		return err
	}
	s.server.Learn(memory.Kind{
		Resource: kube.Resource{GroupVersionResource: gv.WithResource(known.Resource), Kind: kind, Namespaced: namespaced}, Guessed: true,
	})
	return nil
}

// resolve finds the resource of a binding's kind.
func (s *simulation) resolve(apiVersion, kind string) (kube.Resource, error) {
	if k, ok := s.server.Resolve(apiVersion, kind); ok {
		return k.Resource, nil
	}
	if s.live != nil {
		res, err := s.live.resolver.Resolve(context.Background(), apiVersion, kind)
		if err == nil {
			s.server.Learn(memory.Kind{Resource: res, Guessed: true})
		}
		return res, err
	}
	if apiVersion == "" {
		return kube.Resource{}, fmt.Errorf("the kind %q is not known: add apiVersion to the binding, or its CRD to the objects", kind)
	}
	// No object of it exists yet, and most kinds have namespaces.
	if err := s.guess(apiVersion, kind, true); err != nil {
		return kube.Resource{}, err
	}
	k, _ := s.server.Resolve(apiVersion, kind)
	return k.Resource, nil
}

func (s *simulation) exclude(h *hook.Hook, index int, reason string) {
	if s.listening {
		s.result.excluded = append(s.result.excluded, fmt.Sprintf("binding %q: %s", h.Kubernetes[index].Name, reason))
	}
}

// simulatedSink receives the events of the bindings.
type simulatedSink struct{ *simulation }

func (s simulatedSink) Keep(text []byte) event.Payload     { return event.Memory(slices.Clone(text)) }
func (s simulatedSink) Objects(*hook.Hook, int, int)       {}
func (s simulatedSink) Gone(*hook.Hook, int, event.Object) {}
func (s simulatedSink) FilterFailed(h *hook.Hook, i int) {
	s.result.notes = append(s.result.notes, fmt.Sprintf("binding %q: jqFilter failed, its result is null", h.Kubernetes[i].Name))
}

func (s simulatedSink) KeyFailed(h *hook.Hook, i int) {
	s.result.notes = append(s.result.notes, fmt.Sprintf("binding %q: queue.key failed, the key is that of the object", h.Kubernetes[i].Name))
}

func (s simulatedSink) Event(ev event.Event) {
	if s.listening {
		s.add(ev)
	}
}

// add queues an event, unless it is for another binding than the chosen one.
func (s *simulation) add(ev event.Event) {
	if name := ev.Binding().Name; s.in.Binding != "" && name != s.in.Binding {
		s.result.excluded = append(s.result.excluded, fmt.Sprintf("binding %q: only %q is chosen", name, s.in.Binding))
		return
	}
	key := ev.LaneKey(hook.LanesOf([]*hook.Hook{s.hook})[ev.Queue()])
	s.waiting = append(s.waiting, &simulatedTask{Task: s.runner.Task(ev), of: s, key: key})
}

// refresh makes the bindings follow the changes of the cluster.
func (s *simulation) refresh(ctx context.Context) error {
	finalizes := slices.ContainsFunc(s.hook.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" })
	if err := s.follow(ctx); err != nil || s.live == nil || !finalizes {
		return err
	}
	if err := s.live.readBack(ctx); err != nil { // finalizers were added
		return err
	}
	return s.follow(ctx)
}

func (s *simulation) follow(ctx context.Context) error {
	for _, c := range s.server.Changes() {
		if s.collecting {
			if err := s.collect(c); err != nil {
				return err
			}
		}
		deliver := s.watched.Set
		if c.Deleted {
			deliver = s.watched.Remove
		}
		if err := deliver(ctx, c.Kind.Resource, c.JSON); err != nil {
			return err
		}
	}
	return nil
}

// collect adds what a change is to the result.
func (s *simulation) collect(c memory.Change) error {
	after := c.JSON
	if c.Deleted {
		after = nil
	}
	d, err := objectDiff(c.Before, after)
	if err == nil && len(d.Lines) > 0 {
		s.result.diffs = append(s.result.diffs, d)
	}
	return err
}

// drain runs what waits. Queues run one after the other, so that the order of the runs is always the same.
func (s *simulation) drain(ctx context.Context) error {
	tasks := s.waiting
	s.waiting = nil
	for len(tasks) > 0 {
		name := tasks[0].Queue()
		var rest []*simulatedTask
		ended := make(chan struct{})
		q := queue.NewSet(queue.Options{Backoff: func(int) time.Duration { return 0 }, OnEnd: func(string) { close(ended) }})
		for _, t := range tasks {
			if t.Queue() != name {
				rest = append(rest, t)
				continue
			}
			q.Add(name, t.key, t)
		}
		q.Keep(map[string]queue.Shape{}) // the queue ends when it is empty
		stop, cancel := context.WithCancel(ctx)
		var worker sync.WaitGroup
		worker.Go(func() { _ = q.Run(stop, ctx) })
		select {
		case <-ended:
		case <-ctx.Done():
		}
		cancel()
		worker.Wait()
		if err := ctx.Err(); err != nil {
			return err
		}
		tasks = rest
	}
	return nil
}

// trigger makes the events of the input, or the Synchronization of all bindings.
func (s *simulation) trigger(ctx context.Context) error {
	switch in := &s.in; {
	case in.From != "":
		return s.replay(ctx)
	case !in.Triggered():
		for i := range s.hook.Kubernetes {
			if s.hook.Kubernetes[i].Initial == hook.InitialEvents {
				s.listening = true
				s.watched.Announce(s.hook, i)
				s.listening = false
				continue
			}
			s.add(event.Event{Type: event.Synchronization, Hook: s.hook, Index: i})
		}
		return s.drain(ctx)
	}
	for i := range s.hook.Kubernetes {
		s.watched.Unlock(s.hook, i)
	}
	switch in := &s.in; {
	case in.Startup:
		if s.hook.OnStartup == nil {
			return errors.New("startup: the hook has no onStartup")
		}
		s.add(event.Event{Type: event.Startup, Hook: s.hook})
		return s.drain(ctx)
	case in.Tick != "":
		return s.tick(ctx)
	case in.Review != nil:
		return s.review(ctx)
	case in.Convert != nil:
		return s.convert(ctx)
	case in.HTTP != "":
		return s.request(ctx)
	}
	for _, ev := range s.in.Events {
		if err := s.event(ctx, ev); err != nil {
			return fmt.Errorf("%s: %w", ev.Place, err)
		}
		if s.in.Together {
			continue
		}
		if err := s.drain(ctx); err != nil {
			return err
		}
		if err := s.finalize(ctx, ev); err != nil {
			return err
		}
	}
	if !s.in.Together {
		return nil
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	for _, ev := range s.in.Events {
		if err := s.finalize(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) tick(ctx context.Context) error {
	var names []string
	for i, b := range s.hook.Schedules {
		if b.Name == s.in.Tick || b.Crontab == s.in.Tick {
			s.add(event.Event{Type: event.Tick, Hook: s.hook, Index: i})
		}
		names = append(names, b.Name)
	}
	if len(s.waiting) == 0 {
		return fmt.Errorf("tick: the hook has no schedule %q; it has %s", s.in.Tick, listed(names))
	}
	return s.drain(ctx)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// event changes the cluster.
func (s *simulation) event(ctx context.Context, ev testfile.Event) error {
	s.listening = true
	defer func() { s.listening = false }()
	switch {
	case isManifest(ev.Ref):
		return s.fileEvent(ctx, ev)
	case ev.Type == "Requeue" && !strings.Contains(ev.Ref, "/"):
		return s.requeueBinding(ev.Ref)
	}
	if ev.Type == "Added" {
		for ref, text := range s.absent {
			if named(ref, ev.Ref, s.server) {
				delete(s.absent, ref)
				return s.added(ctx, text)
			}
		}
	}
	o, err := s.server.Find(ev.Ref)
	if err != nil && s.origin != nil {
		o, err = s.origin.find(ctx, ev.Ref)
		s.server.Changes() // it is no event that the object was read
	}
	if err != nil {
		return err
	}
	return s.change(ctx, ev.Type, o)
}

// requeueBinding delivers a requeue of a binding that is about no object: its Synchronization, a tick, or the context of a group.
func (s *simulation) requeueBinding(name string) error {
	names := []string{}
	for i, k := range s.hook.Kubernetes {
		switch {
		case k.Group == name:
			s.add(event.Event{Type: event.Change, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		case k.Name == name && k.Group == "" && k.Initial == hook.InitialList:
			s.add(event.Event{Type: event.Synchronization, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		}
		names = append(names, cmp.Or(k.Group, k.Name))
	}
	for i, b := range s.hook.Schedules {
		if b.Name == name || b.Group == name {
			s.add(event.Event{Type: event.Tick, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		}
		names = append(names, cmp.Or(b.Group, b.Name))
	}
	return fmt.Errorf("there is no binding or group %q with a Synchronization or ticks; the hook has %s", name, listed(names))
}

// requeueObject delivers a requeue of an object by each binding that has it.
func (s *simulation) requeueObject(o memory.Object) error {
	for i, k := range s.hook.Kubernetes {
		res, err := s.resolve(k.APIVersion, k.Kind)
		if err != nil {
			return err
		}
		if res.GroupResource() != o.Kind.GroupResource() || k.Group != "" {
			continue
		}
		ev, ok := s.watched.Object(s.hook, i, o.Namespace, o.Name)
		if !ok {
			s.exclude(s.hook, i, "its selectors do not match the object")
			continue
		}
		ev.Watch = event.Requeued
		s.add(ev)
	}
	return nil
}

// named reports whether a reference as users write it is that of an object.
func named(ref, text string, server *memory.Server) bool {
	have, want := strings.Split(ref, "/"), strings.Split(text, "/")
	if k, ok := server.Resolve("", want[0]); ok {
		want[0] = strings.ToLower(k.Kind)
	}
	return strings.EqualFold(have[0], want[0]) && have[len(have)-1] == want[len(want)-1] && (len(want) == 2 || slices.Equal(have[1:], want[1:]))
}

func (s *simulation) fileEvent(ctx context.Context, ev testfile.Event) error {
	manifests, err := readManifests([]string{ev.Ref})
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return errors.New("the file has no object")
	}
	if err := s.learn(manifests...); err != nil {
		return err
	}
	for _, m := range manifests {
		switch ev.Type {
		case "Added":
			err = s.added(ctx, m.text)
		case "Modified":
			if s.live != nil {
				err = s.live.replace(ctx, m.text)
			} else {
				_, err = s.server.Replace(m.text)
			}
			if err == nil {
				err = s.refresh(ctx)
			}
		default:
			head, _ := headOf(m.text)
			var o memory.Object
			if o, err = s.server.Find(head.ref()); err == nil {
				err = s.change(ctx, ev.Type, o)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) added(ctx context.Context, text []byte) error {
	if err := s.createObject(ctx, text); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// change makes an event of an object that exists.
func (s *simulation) change(ctx context.Context, typ string, o memory.Object) error {
	switch typ {
	case "Added": // a run has created it, which was no event
		s.listening = false
		if err := s.watched.Remove(ctx, o.Kind.Resource, o.JSON); err != nil {
			return err
		}
		s.listening = true
		return s.watched.Set(ctx, o.Kind.Resource, o.JSON)
	case "Requeue":
		return s.requeueObject(o)
	case "Deleting":
		if s.live == nil {
			s.server.MarkDeleted(o)
		} else if err := s.live.markDeleted(ctx, o); err != nil {
			return err
		}
	default:
		if err := s.removeObject(ctx, o); err != nil {
			return err
		}
	}
	return s.refresh(ctx)
}

// removeObject removes an object, whatever finalizers it has.
func (s *simulation) removeObject(ctx context.Context, o memory.Object) error {
	if s.live != nil {
		return s.live.remove(ctx, o)
	}
	if s.origin != nil {
		s.origin.forget(o)
	}
	s.server.Remove(o)
	return nil
}

// finalize removes an object that was marked as deleted, once no finalizer is left.
func (s *simulation) finalize(ctx context.Context, ev testfile.Event) error {
	if ev.Type != "Deleting" || s.result.err != nil {
		return nil
	}
	refs := []string{ev.Ref}
	if isManifest(ev.Ref) {
		manifests, err := readManifests(refs)
		if err != nil {
			return err
		}
		refs = nil
		for _, m := range manifests {
			head, _ := headOf(m.text)
			refs = append(refs, head.ref())
		}
	}
	s.listening = true
	for _, ref := range refs {
		o, err := s.server.Find(ref)
		if err != nil {
			continue // the hook has removed it
		}
		if head, err := headOf(o.JSON); err != nil || len(head.Metadata.Finalizers) > 0 {
			continue
		}
		if err := s.removeObject(ctx, o); err != nil {
			return err
		}
		if err := s.refresh(ctx); err != nil {
			return err
		}
	}
	s.listening = false
	return s.drain(ctx)
}

// simulatedExecutor observes the process of a run.
type simulatedExecutor struct {
	*simulation
	run.Executor
}

func (e simulatedExecutor) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	s := e.simulation
	if s.result.exhausted != nil {
		s.result.failed, s.result.exhausted = s.result.exhausted, nil
	}
	s.result.runs++
	if s.started != nil {
		if contexts, err := os.ReadFile(valueOf(in.Env, "BINDING_CONTEXT_PATH")); err == nil {
			s.started(contexts)
		}
	}
	in.Stdout, in.Stderr = s.lines("stdout", &s.result.stdout), s.lines("stderr", &s.result.stderr)
	return e.Executor.Execute(ctx, in)
}

func (s *simulation) lines(stream string, into *[]string) func([]byte) {
	return func(line []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		*into = append(*into, string(line))
		if s.line != nil {
			s.line(stream, string(line))
		}
	}
}

// simulatedFinalizers remove finalizers. The deletion of an object that has none left is an event.
type simulatedFinalizers struct{ *simulation }

func (f simulatedFinalizers) Release(ctx context.Context, events iter.Seq[event.Event]) {
	f.listening = true
	defer func() { f.listening = false }()
	f.watched.Release(ctx, events)
	if err := f.readBack(ctx); err != nil && ctx.Err() == nil {
		f.result.notes = append(f.result.notes, "the finalizers: "+err.Error())
	}
}

// simulatedEffects apply what runs return to the simulated cluster.
type simulatedEffects struct{ *simulation }

func (e simulatedEffects) Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn, seen run.Seen) ([]run.Change, error) {
	requests, err := apply.Check(h, out, e.filters)
	if err != nil {
		return nil, err
	}
	e.learnPatches(ctx, requests.Patches)
	for _, w := range requests.Warnings {
		e.result.notes = append(e.result.notes, "the metrics: "+w.String())
	}
	if e.dry != nil {
		changes, err := e.dry.Apply(ctx, log, h, out, turn, seen)
		e.result.diffs = append(e.result.diffs, e.dryRuns.take()...)
		if err != nil {
			return changes, err
		}
	}
	changes, err := e.effects.Apply(ctx, log, h, out, turn, seen)
	e.effects.Flush(ctx)
	if err == nil {
		e.result.patches = append(e.result.patches, requests.Patches...)
		e.result.metrics = append(e.result.metrics, requests.Metrics...)
	}
	return changes, errors.Join(err, e.readBack(ctx))
}

// readBack makes the bindings follow what operations have changed.
func (s *simulation) readBack(ctx context.Context) error {
	if s.live != nil {
		if err := s.live.readBack(ctx); err != nil {
			return err
		}
	}
	s.collecting = s.diff && s.dry == nil
	defer func() { s.collecting = false }()
	return s.refresh(ctx)
}

func (e simulatedEffects) ApplyFailed(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn, seen run.Seen) ([]run.Change, error) {
	if patches, err := wire.ParsePatches(out.Patch, e.filters); err == nil {
		e.learnPatches(ctx, patches)
		e.result.despite = slices.DeleteFunc(patches, func(p effect.Patch) bool { return !p.IgnoreHookError })
	}
	changes, err := e.effects.ApplyFailed(ctx, log, h, out, turn, seen)
	return changes, errors.Join(err, e.readBack(ctx))
}

func (e simulatedEffects) SetConditions(ctx context.Context, log *slog.Logger, h *hook.Hook, outcomes []run.Outcome, seen run.Seen) error {
	err := e.effects.SetConditions(ctx, log, h, outcomes, seen)
	return errors.Join(err, e.refresh(ctx))
}

// learnPatches serves the kinds that operations name; one that is unknown is an error of its operation.
func (s *simulation) learnPatches(ctx context.Context, patches []effect.Patch) {
	switch {
	case s.live != nil:
		return // the cluster knows
	case s.origin != nil:
		s.origin.learn(ctx, patches)
		return
	}
	for _, p := range patches {
		for _, k := range crdKinds(p.Object) {
			s.server.Learn(k)
		}
		if p.Set != nil {
			s.learnSet(p.Set)
			continue
		}
		if p.APIVersion != "" && p.Subresource == "" {
			_ = s.guess(p.APIVersion, p.Kind, p.Namespace != "")
		}
	}
}

// learnSet serves the kinds of a set and of its owner.
func (s *simulation) learnSet(set *effect.ObjectSet) {
	for _, m := range set.Objects {
		for _, k := range crdKinds(m.Object) {
			s.server.Learn(k)
		}
	}
	for _, m := range set.Objects {
		_ = s.guess(m.APIVersion, m.Kind, m.Namespace != "" || set.Owner != nil && set.Owner.Namespace != "")
	}
	if o := set.Owner; o != nil {
		_ = s.guess(o.APIVersion, o.Kind, o.Namespace != "")
	}
}
