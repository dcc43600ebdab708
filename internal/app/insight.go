package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/recording"
)

// DebugOptions are about the debug API.
type DebugOptions struct {
	// Socket is the path of its socket; SocketChosen reports that a flag or variable set it. RuntimeDir is a private folder
	// of the user where it is otherwise, if it cannot be at Socket.
	Socket       string
	SocketChosen bool
	RuntimeDir   string
	// Address is "host:port" to serve it there too, or empty.
	Address string
	// Level is that of the log, which may be changed.
	Level *slog.LevelVar
	// Served is called when the API accepts requests. It may be nil.
	Served func()
}

// insight serves metrics, probes, the debug API and the status page.
type insight struct {
	op       *operator
	history  *history.History
	logLevel *debug.LogLevel
	hooksDir string
	api      *debug.API
	page     http.Handler
	// ready is set when the operator is complete: before, only its queues are.
	ready atomic.Bool
}

var _ debug.Operator = (*insight)(nil)

func newInsight(op *operator, o Options) *insight {
	if o.Debug.Level == nil {
		o.Debug.Level = &slog.LevelVar{} // of no logger
	}
	i := &insight{op: op, hooksDir: o.HooksDir, history: history.New(), logLevel: debug.NewLogLevel(o.Debug.Level, o.Log)}
	options := debug.Options{
		Operator: i, History: i.history, LogLevel: i.logLevel, Version: o.Version, HookTimeout: o.HookTimeout, Profiling: o.Profiling, Log: o.Log,
	}
	i.api, i.page = debug.New(options), debug.NewPage(options)
	return i
}

// built marks the operator as complete.
func (i *insight) built() {
	i.api.Actions = actions{i.op.life, i.op.recorder, i.op}
	i.ready.Store(true)
}

// close ends what has been set for a while.
func (i *insight) close() { i.logLevel.Close() }

// serve serves the debug API until the returned function is called.
func (i *insight) serve(o Options) (end func(), err error) {
	server, err := debug.Listen(debug.ServerOptions{
		API: i.api, Place: debug.Place{Socket: o.Debug.Socket, Chosen: o.Debug.SocketChosen, Runtime: o.Debug.RuntimeDir},
		TCP: o.Debug.Address, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { server.Run(ctx) })
	if o.Debug.Served != nil {
		o.Debug.Served()
	}
	return func() { cancel(); serving.Wait() }, nil
}

// Hooks are those that were loaded.
func (i *insight) Hooks() []*hook.Hook {
	if !i.ready.Load() {
		return nil
	}
	return append([]*hook.Hook{}, i.op.life.Hooks()...)
}

// Rejected are the hooks that made the last reload fail.
func (i *insight) Rejected() map[string]string { return i.op.health.Rejected() }

// Skipped is why a file is no hook, and the next step.
func (i *insight) Skipped(name string) (reason, hint string) {
	_, entries, err := hookset.Entries(i.hooksDir)
	if err != nil {
		return "", ""
	}
	for _, e := range entries {
		if e.Name == name && e.Skipped != nil {
			return e.Skipped.Reason, e.Skipped.Hint
		}
	}
	return "", ""
}

var phases = map[queue.Phase]debug.Phase{
	queue.Idle: debug.Idle, queue.Waiting: debug.Waiting, queue.Running: debug.Running, queue.Sleeping: debug.Sleeping, queue.Stopped: debug.Stopped,
}

// Queues copies what is to be known under the lock of each queue, because tasks change with merges.
func (i *insight) Queues(limit int) (all []debug.Queue) {
	i.op.queues.Look(hook.MainQueue, limit, func(s queue.State, lanes []queue.Lane) { all = append(all, queueOf(s, lanes, limit)) })
	paused := i.op.queues.PausedQueues()
	for _, name := range paused { // before it has had a task
		if !slices.ContainsFunc(all, func(q debug.Queue) bool { return q.Name == name }) {
			all = append(all, debug.Queue{Name: name, Paused: true, Status: "paused"})
		}
	}
	return all
}

// Queue copies one queue.
func (i *insight) Queue(name string, limit int) (q debug.Queue, ok bool) {
	ok = i.op.queues.LookQueue(name, limit, func(s queue.State, lanes []queue.Lane) { q = queueOf(s, lanes, limit) })
	if !ok && slices.Contains(i.op.queues.PausedQueues(), name) {
		return debug.Queue{Name: name, Paused: true, Status: "paused"}, true
	}
	return q, ok
}

// Lane copies one lane.
func (i *insight) Lane(queueName, key string) (l debug.Lane, ok bool) {
	ok = i.op.queues.LookLane(queueName, key, func(lane queue.Lane) { l = laneOf(lane) })
	return l, ok
}

func queueOf(s queue.State, lanes []queue.Lane, limit int) debug.Queue {
	q := debug.Queue{
		Name: s.Name, Length: s.Length, Phase: phases[s.Phase], Since: s.Since, Status: s.Status(), Paused: s.Paused,
		Keyed: s.Keyed, Concurrency: s.Concurrency, Running: s.Running, Delayed: s.Delayed, LaneCount: s.Lanes,
	}
	if q.Keyed {
		q.Status = fmt.Sprintf("%d of at most %d runs in flight, %d of %d lanes delayed", s.Running, s.Concurrency, s.Delayed, s.Lanes)
		q.Left, q.Failures, q.LastError = s.Retry.Left, s.Retry.Failures, s.Retry.LastError
	} else {
		q.Left, q.Failures, q.LastError = s.Left, s.Failures, s.LastError
	}
	if q.Paused {
		q.Status = strings.TrimPrefix(q.Status+", paused", ", ")
	}
	for _, l := range lanes {
		if q.Keyed {
			q.Lanes = append(q.Lanes, laneOf(l))
		}
		for t := range l.All() {
			if limit >= 0 && len(q.Tasks) >= limit {
				break
			}
			q.Tasks = append(q.Tasks, describe(t))
			if q.Keyed {
				break
			}
		}
	}
	return q
}

// laneOf is a lane with its first task.
func laneOf(l queue.Lane) debug.Lane {
	shown := debug.Lane{Key: l.Key, Length: l.Tasks, Phase: phases[l.Phase], Since: l.Since, Left: l.Left, Failures: l.Failures, LastError: l.LastError}
	for t := range l.All() {
		shown.Task = describe(t)
		break
	}
	return shown
}

func describe(t queue.Task) debug.Task {
	shown := debug.Task{Description: t.String()}
	if t, ok := t.(lifecycle.Task); ok {
		shown.Hook, shown.Type, shown.Binding = t.Hook().Name, t.EventType(), t.Binding()
	}
	return shown
}

// Binding is what a kubernetes binding sees.
func (i *insight) Binding(h *hook.Hook, index int) debug.Binding {
	s := i.op.watcher.State(h, index)
	next, total := i.deletions(h, index)
	return debug.Binding{
		Deletions: next, DeletionsTotal: total,
		Objects: s.Objects, Total: debug.Changes(s.Total), Recent: debug.Changes(s.Recent),
		Complete: s.Complete, Unlocked: s.Unlocked, Held: s.Held, Troubles: s.Troubles,
		FilterFails: s.FilterFails, FilterError: s.FilterError, Finalizing: append(s.Finalizing, i.displaced(h, index)...),
	}
}

// displaced says which deletions have left the parked contexts because of their bound.
func (i *insight) displaced(h *hook.Hook, index int) []string {
	objects := i.op.runner.Pending().Requeues.Waiting(h, index)
	if len(objects) == 0 {
		return nil
	}
	first := strings.TrimPrefix(objects[0].Namespace+"/"+objects[0].Name, "/")
	return []string{fmt.Sprintf("%d objects keep the finalizer %s, because more than --max-parked contexts are parked: their deletion is delivered again when there is room: %s",
		len(objects), h.Kubernetes[index].Finalizer, first)}
}

// shownDeletions limits the objects of a binding whose clean-up has another step.
const shownDeletions = 3

// deletions are the objects whose clean-up has another step, and the number of all.
func (i *insight) deletions(h *hook.Hook, index int) (next []debug.Deletion, total int) {
	all := i.op.runner.Pending().Requeues.Deletions(h, index)
	for _, d := range all[:min(shownDeletions, len(all))] {
		next = append(next, debug.Deletion{Object: strings.TrimPrefix(d.Object.Namespace+"/"+d.Object.Name, "/"), Due: d.Due})
	}
	return next, len(all)
}

// missing lists what keeps the kubernetes bindings of a hook from being enabled at this moment.
func (op *operator) missing(h *hook.Hook) (all []string) {
	if unanswered := op.requests.Unanswered(); unanswered != "" {
		all = append(all, unanswered)
	}
	for i := range h.Kubernetes {
		for _, trouble := range op.watcher.Troubles(h, i) {
			all = append(all, fmt.Sprintf("binding %q: %s", h.Kubernetes[i].Name, trouble))
		}
	}
	return all
}

// Progress is how far a hook has come.
func (i *insight) Progress(h *hook.Hook) debug.Progress {
	p := debug.Progress{Ticking: i.op.life.State(h) == lifecycle.Ticking, StartedUp: i.op.life.StartupDone(), Waiting: i.op.health.Waiting(h)}
	if i.op.election != nil {
		if leader := i.op.leader.Load(); leader != nil {
			p.Leader = *leader
		}
		select {
		case <-i.op.leading:
		default:
			p.Standby = true
		}
	}
	return p
}

// PausedHooks are the names of paused hooks.
func (i *insight) PausedHooks() []string { return i.op.queues.PausedOwners() }

// Recording is the recording of a run.
func (i *insight) Recording(run string) ([]byte, error) { return i.op.recorder.Read(run) }

// Finalizers reads the record of finalizers.
func (i *insight) Finalizers(ctx context.Context) ([]debug.Finalizer, error) {
	entries, err := i.op.finalizers.List(ctx)
	all := make([]debug.Finalizer, len(entries))
	orphans := i.Orphans()
	for n, e := range entries {
		all[n] = i.finalizer(e)
		for _, o := range orphans {
			if o.Finalizer == e.Finalizer && o.Resource == e.Resource && all[n].Own {
				all[n].Orphan, all[n].Objects, all[n].Elsewhere = true, o.Objects, o.Elsewhere
			}
		}
	}
	return all, err
}

// Others are the other running operators of this installation.
func (i *insight) Others() (instance string, operators []string) {
	return i.op.finalizers.Instance(), i.op.finalizers.Alive()
}

// Heartbeats are those of all operators that share the record.
func (i *insight) Heartbeats(ctx context.Context) (all []debug.Heartbeat, err error) {
	presences, err := i.op.finalizers.Presences(ctx)
	for _, p := range presences {
		h := debug.Heartbeat{Operator: p.Operator, Instance: p.Instance, Renewed: p.Renewed}
		switch {
		case p.Self:
			h.State = "this operator"
		case p.Alive:
			h.State = "running"
		case p.Gone:
			h.State = "gone"
		}
		all = append(all, h)
	}
	return all, err
}

func (i *insight) finalizer(e finalizer.Entry) debug.Finalizer {
	return debug.Finalizer{Finalizer: e.Finalizer, Resource: e.Resource, Instance: e.Instance, Own: e.Instance == i.op.finalizers.Instance(), Hook: e.Hook, Binding: e.Binding}
}

// Orphans are the finalizers of hooks that are gone.
func (i *insight) Orphans() (all []debug.Finalizer) {
	for _, o := range i.op.finalizers.Orphans() {
		f := i.finalizer(o.Entry)
		f.Orphan, f.Objects, f.Elsewhere = true, o.Objects, o.Elsewhere
		all = append(all, f)
	}
	return all
}

// shownContexts limits the contexts of a parked task that are described.
const shownContexts = 10

// Parked are the parked tasks, the latest first.
func (i *insight) Parked() (all []debug.ParkedTask) {
	if !i.ready.Load() {
		return nil
	}
	for _, p := range i.op.life.Parked(math.MaxInt) {
		t := debug.ParkedTask{ID: p.ID, Hook: p.Hook.Name, Queue: p.Queue, Key: p.Key, Contexts: p.Contexts, Attempts: p.Attempts, Since: p.Since, Error: p.Error, GaveUp: p.GaveUp}
		for n, ev := range p.Events {
			if name := ev.Binding().Name; !slices.Contains(t.Bindings, name) {
				t.Bindings = append(t.Bindings, name)
			}
			if n < shownContexts {
				t.About = append(t.About, run.DescribeEvent(&ev))
			}
		}
		all = append(all, t)
	}
	slices.Reverse(all)
	return all
}

// actions are what users of the debug socket do to the operator.
type actions struct {
	*lifecycle.Lifecycle
	*recording.Recorder
	op *operator
}

func (a actions) RemoveFinalizer(ctx context.Context, name, instance string) (int, error) {
	return a.op.finalizers.Remove(ctx, name, instance)
}

func (a actions) ReleaseObject(ctx context.Context, kind, namespace, name string) ([]string, error) {
	return a.op.releaseObject(ctx, kind, namespace, name)
}

func (a actions) ResumeQueue(name string) {
	a.Lifecycle.ResumeQueue(name)
	a.op.effects.Sets().Recheck()
}

func (a actions) ResumeHook(name string) {
	a.Lifecycle.ResumeHook(name)
	a.op.effects.Sets().Recheck()
}

func (a actions) SkipTask(queue, key string) (string, bool) {
	skipped, ok := a.Lifecycle.SkipTask(queue, key)
	if !ok {
		return "", false
	}
	return skipped.Task.String(), true
}

// Sent are the kinds of operations that were sent.
func (i *insight) Sent() (all []debug.Sent, dropped int) {
	sent, dropped := i.op.effects.Sent()
	for _, s := range sent {
		all = append(all, debug.Sent(s))
	}
	return all, dropped
}

// OneByOne is the place in its script because of which a hook runs once per context.
func (i *insight) OneByOne(h *hook.Hook) string {
	if !h.Settings.OneByOne {
		return ""
	}
	path, release := i.op.store.Take(h)
	defer release()
	at, _ := hookset.ContextsOf(strings.TrimSuffix(path, h.Name), i.hooksDir, h.Name).OneByOne()
	return at.String()
}

// NextTick is when a crontab is due.
func (i *insight) NextTick(crontab string) time.Time { return i.op.clock.Next(crontab) }

// begin records a run.
func (i *insight) begin(b run.Begun) run.Record {
	i.op.watcher.Executed(b.Hook)
	return record{i.history.Begin(history.Run{
		ID: b.ID, Task: b.Task, Hook: b.Hook.Name, Queue: b.Queue, Binding: b.Binding, Event: b.Event,
		Why: b.Why, Events: b.Events, Attempt: b.Attempt, Waited: history.Duration(b.Waited),
	})}
}

// record is a run in the eyes of the history.
type record struct{ *history.Record }

func (r record) End(report run.Report) {
	outcome := history.Outcome{Status: history.Succeeded, Took: report.Wall, Exit: report.Exit(), Answer: report.Response, Message: report.Result.Message, Unrecorded: report.Unrecorded}
	switch {
	case report.Interrupted:
		outcome.Status = history.Interrupted
	case report.Err != nil && report.Allowed:
		outcome.Status = history.Allowed
	case report.Err != nil:
		outcome.Status = history.Failed
	}
	if reason := report.Result.GiveUp; reason != "" {
		outcome.Message = strings.TrimPrefix(outcome.Message+"; the hook gave up: "+reason, "; ")
	}
	if report.Err != nil {
		outcome.Error = strings.TrimSpace(report.Err.Error())
	}
	for _, c := range report.Changes {
		outcome.Patches = append(outcome.Patches, history.Patch(c))
	}
	for _, c := range report.Kubectl {
		outcome.Kubectl = append(outcome.Kubectl, history.KubectlCalls(c))
	}
	r.Record.End(outcome)
}
