package app

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	record "github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// Topics are the topics without an operator: they have routes and their commands, which answer nothing.
func Topics() []debug.Topic {
	none := &insight{op: &operator{shards: &shards{}, effects: &apply.Effects{}, finalizers: &record.Record{}},
		logLevel: &debug.LogLevel{}}
	return debug.All(none.topics())
}

// Routes are theirs.
func Routes() (all []debug.Route) {
	for _, t := range Topics() {
		all = append(all, t.Routes...)
	}
	return all
}

// early are the topics that need no hooks.
func (i *insight) early() []debug.Topic {
	return []debug.Topic{
		debug.QueuesTopic(i.op.queueSet(), i.op.life, i.history, i.timeout),
		debug.RunsTopic(i.hooks, i.history, i.op.recorder, i.op.queueSet(), i.op.life),
		debug.OperationsTopic(i.op.effects.Sent),
		i.logLevel.Topic(),
	}
}

// topics are all, in the order in which their reasons are shown.
func (i *insight) topics() []debug.Topic {
	op, queues := i.op, i.op.queueSet()
	return []debug.Topic{
		debug.PausesTopic(i.hooks, queues, pauses{op.life, op}),
		debug.QueuesTopic(queues, op.life, i.history, i.timeout),
		{Metrics: debug.QueueMetrics(i.names, op.queues)},
		debug.ParkedTopic(op.life, i.names),
		debug.FinalizersTopic(debug.FinalizersOptions{
			Hooks: i.hooks, Record: op.finalizers, Instance: op.finalizers.Instance(), SearchProblem: op.searchFails,
			Names: i.names,
		}),
		debug.SetsTopic(debug.SetsOptions{
			Hooks: i.hooks, Sets: op.effects.Sets(), Log: op.log, Fence: op.fenced, Ended: op.setEnded, Lost: op.lost,
			Contested: op.effects.Sets().Contested, Names: i.names,
		}),
		debug.BindingsTopic(i.hooks, i, queues, i.names),
		debug.ReloadTopic(op.health.Rejected, i.names),
		debug.HooksTopic(i.hooks, i, objects{op.watcher, op}, op.life),
		debug.RunsTopic(i.hooks, i.history, op.recorder, queues, op.life),
		debug.ObjectTopic(i.hooks, objects{op.watcher, op}, i, i.history),
		debug.WorkersTopic(i.hooks, i),
		debug.WebhooksTopic(i.hooks, op.servers.Unregistered, i.history),
		debug.OperationsTopic(i.op.effects.Sent),
		i.logLevel.Topic(),
		{Troubles: op.troubles, Metrics: []prometheus.Collector{i.names.Gauge("hook_metric_series", op.hookSeries),
			i.names.Gauge("troubles", i.countTroubles)}},
		{Metrics: []prometheus.Collector{i.names.Gauge("shard_info", op.shards.info)}},
	}
}

// troubles are the troubles of the API server, the Lease and the spool.
func (op *operator) troubles() (all []debug.Trouble) {
	if op.election != nil {
		if text := op.election.Problem(); text != "" {
			all = append(all, debug.Trouble{Kind: debug.InLease, Subject: "the Lease", Problem: text})
		}
		all = append(all, op.shards.vacancy(op.election.Vacant(), op.election.Selector())...)
	}
	switch {
	case op.spool.Refused():
		all = append(all, debug.Trouble{Kind: debug.InSpool, Subject: "the spool",
			Problem: fmt.Sprintf("waiting events take %d MiB of memory, because the directory of --tmp-dir cannot be written",
				op.spool.Memory()>>20),
			Hint: "make room there; shell-operator queue list shows where events wait"})
	case op.spool.Full():
		all = append(all, debug.Trouble{Kind: debug.InSpool, Subject: "the spool",
			Problem: fmt.Sprintf("waiting events take %d MiB on the disk, more than --spool-limit: a Modified event replaces the one of its "+
				"object that waits", op.spool.OnDisk()>>20),
			Hint: "shell-operator queue list shows where events wait"})
	}
	return all
}

// hookSeries counts the series of metrics of each hook.
func (op *operator) hookSeries(set telemetry.Set) {
	for name, n := range op.effects.Metrics.Series() {
		set(n, name)
	}
}

// countTroubles counts the troubles by kind and hook; the hook is empty for a trouble of the operator.
func (i *insight) countTroubles(set telemetry.Set) {
	type labels struct{ kind, hook string }
	counts := map[labels]int{}
	for _, t := range i.api.Troubles() {
		hooks := t.Hooks
		if len(hooks) == 0 {
			hooks = []string{""}
		}
		for _, name := range hooks {
			counts[labels{string(t.Kind), name}]++
		}
	}
	for l, n := range counts {
		set(n, l.kind, l.hook)
	}
}

// notReady is why requests are not answered.
func (i *insight) notReady() string {
	if _, err := i.op.health.Ready(); err != nil {
		return err.Error()
	}
	return ""
}

// readiness is the answer of /readyz: its notes do not affect readiness. What keeps bindings of a hook that waits from being enabled is in
// the note about that hook.
func (i *insight) readiness() (notes []string, err error) {
	notes, err = i.op.health.Ready()
	if !i.ready.Load() {
		return notes, err
	}
	waiting := map[string]bool{}
	for _, h := range i.op.life.Hooks() {
		waiting[h.Name] = i.op.health.Waiting(h) != ""
	}
	for _, t := range i.api.Troubles() {
		if t.Kind == debug.InWatch && slices.ContainsFunc(t.Hooks, func(name string) bool { return waiting[name] }) {
			continue
		}
		notes = append(notes, t.Note())
	}
	return notes, err
}
