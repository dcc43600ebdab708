package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// DebugOptions are about the debug API.
type DebugOptions struct {
	debug.Place
	// Address is "host:port" to serve it there too, or empty.
	Address string
	// Level is the level of the log, which may be changed.
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
	// timeout is the default time limit of runs; 0 means none.
	timeout time.Duration
	// noWorkers: a process is started for each run of every hook.
	noWorkers bool
	names     telemetry.Names
	hooks     *debug.Hooks
	api       *debug.API
	page      http.Handler
	// ready is set when the operator is complete: before, only its queues are.
	ready atomic.Bool
}

func newInsight(op *operator, cl *kube.Cluster, o Options) *insight {
	if o.Debug.Level == nil {
		o.Debug.Level = &slog.LevelVar{} // of no logger
	}
	i := &insight{op: op, hooksDir: o.HooksDir, timeout: o.HookTimeout, noWorkers: !o.Workers,
		names: telemetry.Names(o.Metrics.Prefix), history: history.New(),
		logLevel: debug.NewLogLevel(o.Debug.Level, o.Log)}
	i.hooks = &debug.Hooks{Active: i.active, Skipped: i.skipped}
	i.api = debug.New(debug.Options{
		Hooks: i.hooks, Queues: op.queueSet(), Bindings: i, Workers: i, History: i.history, NotReady: i.notReady,
		Version: o.Version, Cluster: cl.Config.Host, Instance: cl.Instance(o.Installation), Role: op.role,
		Shard: op.shards.status, Later: Routes(), Log: o.Log,
	})
	i.api.Show(i.early())
	i.page = debug.NewPage(i.api, o.Profiling)
	return i
}

// built marks the operator as complete.
func (i *insight) built() {
	topics := i.topics()
	i.api.Show(topics)
	for _, t := range topics {
		i.op.meter.Registry.MustRegister(t.Metrics...)
	}
	i.ready.Store(true)
}

// serve serves the debug API until the returned function is called.
func (i *insight) serve(o Options) (end func(), err error) {
	server, err := debug.Listen(debug.ServerOptions{
		API: i.api, Place: o.Debug.Place, TCP: o.Debug.Address, Log: o.Log,
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

// active are the hooks that were loaded.
func (i *insight) active() []*hook.Hook {
	if !i.ready.Load() {
		return nil
	}
	return append([]*hook.Hook{}, i.op.life.Hooks()...)
}

// skipped is why a file is no hook, and the next step.
func (i *insight) skipped(name string) (reason, hint string) {
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

// Binding has the objects and the state of a kubernetes binding.
func (i *insight) Binding(h *hook.Hook, index int) watch.State {
	s := i.op.watcher.State(h, index)
	s.Guarding = append(s.Guarding, i.displaced(h, index)...)
	return s
}

// displaced says which deletions have left the parked contexts because of their bound.
func (i *insight) displaced(h *hook.Hook, index int) []string {
	objects := i.op.pending.Waiting(h, index)
	if len(objects) == 0 {
		return nil
	}
	first := strings.TrimPrefix(objects[0].Namespace+"/"+objects[0].Name, "/")
	return []string{fmt.Sprintf("%d objects keep the finalizer %s, because more than --max-parked contexts are parked: their deletion is "+
		"delivered again when there is room: %s",
		len(objects), h.Kubernetes[index].Finalizer, first)}
}

// Deletions are the objects of a binding whose clean-up has another step.
func (i *insight) Deletions(h *hook.Hook, index int) []pending.Deletion {
	return i.op.pending.Deletions(h, index)
}

// missing lists what keeps the kubernetes bindings of a hook from being enabled at this moment.
func (op *operator) missing(h *hook.Hook) (all []string) {
	for i := range h.Kubernetes {
		for _, trouble := range op.watcher.Troubles(h, i) {
			all = append(all, fmt.Sprintf("binding %q: %s", h.Kubernetes[i].Name, trouble))
		}
	}
	return all
}

// Progress has the state of a hook's start.
func (i *insight) Progress(h *hook.Hook) debug.Progress {
	state := i.op.life.State(h)
	p := debug.Progress{Ticking: state == lifecycle.Ticking, Paused: state == lifecycle.Paused, StartedUp: i.op.life.StartupDone(),
		Waiting: i.op.health.Waiting(h)}
	if i.op.shards.count > 0 {
		p.Elsewhere, p.Where = i.op.shards.elsewhere(h)
		p.Standby = p.Elsewhere != ""
	} else if p.Standby = i.op.role() == "standby"; p.Standby {
		p.Elsewhere, p.Where = i.op.elsewhere(h)
	}
	return p
}

// elsewhere is why a standby does not run a hook, and the next step.
func (op *operator) elsewhere(h *hook.Hook) (reason, hint string) {
	leader := op.leader.Load()
	switch now := op.election.State(); {
	case now.Rival != "":
		return "this replica is a standby, it waits for " + now.Waits, ""
	case leader == nil || *leader == "":
		return "no replica leads; this one takes over when the Lease is free",
			"if that takes longer than --leader-election-lease-duration, search the log for: Cannot use the Lease"
	}
	return fmt.Sprintf("the leader %q runs the hooks; this replica is a standby", *leader), "run this there: shell-operator why " + h.Name
}

// role is the replica's one in the election; empty without an election.
func (op *operator) role() string {
	if op.election == nil {
		return ""
	}
	select {
	case <-op.leading:
		return "leader"
	default:
		return "standby"
	}
}

// Workers returns the workers of a hook, and whether they are used.
func (i *insight) Workers(h *hook.Hook) (worker.State, bool) {
	return i.op.workers.State(h.Name), !i.noWorkers
}

// pauses are the pauses of the lifecycle. Members of sets that a pause has kept from restores are checked when it ends.
type pauses struct {
	*lifecycle.Lifecycle
	op *operator
}

func (p pauses) ResumeQueue(name string) {
	p.Lifecycle.ResumeQueue(name)
	p.op.effects.Sets().Recheck()
}

func (p pauses) ResumeHook(name string) {
	p.Lifecycle.ResumeHook(name)
	p.op.effects.Sets().Recheck()
}

// NextTick is when a crontab is due.
func (i *insight) NextTick(crontab string) time.Time { return i.op.clock.Next(crontab) }

// chronicle is the Companion that reports runs to the history, the metrics and Events.
type chronicle struct{ *insight }

// Joins implements run.Companion.
func (chronicle) Joins(*hook.Hook, bool) bool { return true }

func (c chronicle) Begin(ctx context.Context, a *run.Attempt) context.Context {
	t := a.Task
	if t.Len() == 0 {
		return ctx
	}
	c.op.watcher.Executed(a.Hook)
	a.Record = c.history.Begin(history.Run{
		ID: t.RunID(), Task: t.ID(), Hook: a.Hook.Name, Queue: t.Queue(), Key: a.Key, Binding: t.Binding(), Event: t.EventType(),
		Why: t.Describe(), Events: t.Len(), Attempt: a.Attempt, Waited: history.Duration(a.Waited),
		OwnWrites: history.Duration(a.OwnWrites), Lacking: a.Lacking,
	})
	return ctx
}

func (c chronicle) Done(_ context.Context, a *run.Attempt, _ error) {
	r, begun := a.Record.(*history.Record)
	if !begun {
		return
	}
	r.End(outcomeOf(&a.Report))
	if !a.Interrupted {
		c.op.runEnded(a.Report)
	}
}

// outcomeOf returns the end of a run as the history has it.
func outcomeOf(report *run.Report) history.Outcome {
	outcome := history.Outcome{Status: history.Succeeded, Took: history.Duration(report.Wall), Exit: report.Exit(), Cause: report.Cause,
		Answer: report.Response, Message: process.Printable(report.Result.Message), Patches: slices.Clone(report.Changes),
		Kubectl: report.Kubectl}
	switch {
	case report.Interrupted:
		outcome.Status = history.Interrupted
	case report.Err != nil && report.Allowed:
		outcome.Status = history.Allowed
	case report.Err != nil:
		outcome.Status = history.Failed
	}
	if reason := report.Result.GiveUp; reason != "" {
		outcome.Message = strings.TrimPrefix(outcome.Message+"; the hook gave up: "+process.Printable(reason), "; ")
	}
	if report.Served.Worker > 0 {
		outcome.Worker = report.Served.String()
	}
	if report.Err != nil {
		outcome.Error = strings.TrimSpace(report.Err.Error())
	}
	return outcome
}
