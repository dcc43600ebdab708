package wire

import (
	"fmt"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// v1 parses configuration version 1.
func (p *parser) v1(o *object) {
	h := &p.hook
	o.lookup("configVersion")
	if len(o.fields) < 2 {
		o.violation("configuration", "should have at least 2 properties", "add a binding, such as onStartup, schedule or kubernetes")
	}
	h.OnStartup = o.integer("onStartup")
	p.settings(o, h)
	parseEach(o, "schedule", 1, &h.Schedules, p.schedule)
	parseEach(o, "kubernetes", 1, &h.Kubernetes, p.kubernetes)
	h.Validating = p.admissions(o, "kubernetesValidating")
	h.Mutating = p.admissions(o, "kubernetesMutating")
	parseEach(o, "kubernetesCustomResourceConversion", 1, &h.Conversions, p.conversion)
	h.HTTP = p.https(o)
	o.close()
	p.link(h)
}

func (p *parser) settings(root *object, h *hook.Hook) {
	h.Settings.ContextsPerRun = p.ContextsPerRun
	o := root.object("settings")
	if o == nil {
		return
	}
	if d := o.duration("executionMinInterval"); d != nil {
		h.Settings.MinInterval = *d
	}
	burst := o.integer("executionBurst")
	if burst != nil && *burst < 0 {
		o.violation("executionBurst", fmt.Sprintf("is %d", *burst), "use 1 or more")
	}
	if h.Settings.MinInterval > 0 {
		h.Settings.Burst = 1
		if burst != nil {
			h.Settings.Burst = max(1, *burst)
		}
	}
	h.Settings.ExecutionTimeout = o.duration("executionTimeout")
	o.contextsPerRun(&h.Settings.ContextsPerRun)
	h.Settings.Kubectl = o.oneOf("kubectl", "auto", "process")
	h.Settings.Record = hook.Record(o.oneOf("record", "failures", "all", "none"))
	h.Settings.MaxFileBytes, h.Settings.MaxLogBytes = o.size("maxFileBytes"), o.size("maxLogBytes")
	h.Settings.Retry = p.retry(o, nil)
	h.Settings.Worker = o.worker()
	h.Settings.ShardBy = shard.By(o.oneOf("shardBy", string(shard.ByNamespace), string(shard.ByObject)))
	o.close()
}

// size reads a number of bytes above 0; 0 stands for none.
func (o *object) size(key string) int {
	n := o.integer(key)
	if n == nil {
		return 0
	}
	if *n < 1 {
		o.violation(key, fmt.Sprintf("is %d", *n), "use a number of bytes, such as 104857600 for 100 MiB")
	}
	return *n
}

// worker reads true, false, or limits.
func (o *object) worker() *hook.Worker {
	v, ok := o.lookup("worker")
	w := &hook.Worker{MaxAge: time.Hour, MaxRuns: 10_000, IdleTimeout: 10 * time.Minute}
	on, isBool := v.(bool)
	switch {
	case !ok, isBool && !on:
		return nil
	case isBool:
		return w
	case jq.TypeOf(v) != "object":
		o.violation("worker", fmt.Sprintf("must be of type boolean or object: %q", jq.TypeOf(v)),
			"write true, or {maxAge: 1h, maxRuns: 10000, idleTimeout: 10m}")
		return nil
	}
	limits := o.object("worker")
	if d := limits.duration("maxAge"); d != nil {
		w.MaxAge = *d
	}
	if d := limits.duration("idleTimeout"); d != nil {
		w.IdleTimeout = *d
	}
	if n := limits.integer("maxRuns"); n != nil {
		if w.MaxRuns = *n; *n < 0 {
			limits.violation("maxRuns", fmt.Sprintf("is %d", *n), "use 0 for no limit, or the number of runs after which a worker is replaced")
		}
	}
	limits.close()
	return w
}

// contextsPerRun reads auto or a number.
func (o *object) contextsPerRun(limit *int) {
	const hint = "use auto, 0 for all contexts, or the maximum per run"
	v, _ := o.lookup("contextsPerRun")
	if word, ok := v.(string); ok {
		*limit = hook.AutoContexts
		if word != "auto" {
			o.violation("contextsPerRun", fmt.Sprintf("is %q", word), hint)
		}
	} else if n := o.integer("contextsPerRun"); n != nil {
		*limit = *n
		if *n < 0 {
			o.violation("contextsPerRun", fmt.Sprintf("is %d", *n), hint)
		}
	}
}

func (p *parser) schedule(o *object) hook.Schedule {
	var s hook.Schedule
	s.Name = p.bindingName(o, "schedule")
	s.Crontab = o.requiredText("crontab")
	if jq.TypeOf(o.fields["crontab"]) == "string" {
		p.crontab(o, s.Crontab)
	}
	s.AllowFailure = o.truth("allowFailure", false)
	s.Retry = p.retry(o, p.hook.Settings.Retry)
	s.Queue = p.plainQueue(o)
	p.includes(o, &s.Binding)
	o.close()
	return s
}

func (p *parser) crontab(o *object, crontab string) {
	if err := p.CheckCrontab(crontab); err != nil {
		o.violation("crontab", fmt.Sprintf("%q is invalid: %v", crontab, err), "")
	}
}

// bindingName parses the name and adds it to messages about the binding.
func (p *parser) bindingName(o *object, def string) string {
	name := o.text("name")
	o.binding = name
	if name == "" {
		return def
	}
	return name
}

func queueName(o *object) string { return queueNameAt(o, "queue") }

func queueNameAt(o *object, key string) string {
	if name := o.text(key); name != "" {
		return name
	}
	return hook.MainQueue
}

type pendingIncludes struct {
	at    *object
	names []string
}

// includes parses group and includeSnapshotsFrom; link resolves them.
func (p *parser) includes(o *object, b *hook.Binding) {
	b.Group = o.text("group")
	p.pending = append(p.pending, pendingIncludes{o, o.texts("includeSnapshotsFrom", 1)})
}

// link resolves names of snapshots to bindings and expands groups: a binding with a group also includes the
// group's kubernetes bindings.
func (p *parser) link(h *hook.Hook) {
	var targets []*hook.Binding
	for a, b := range h.Bindings() {
		if a.Kind != hook.OnStart {
			targets = append(targets, b.Binding)
		}
	}
	if len(targets) != len(p.pending) {
		return // an item is not an object, which has been reported
	}
	for i, pending := range p.pending {
		for j, name := range pending.names {
			index, ok := p.included(pending.at, indexed("includeSnapshotsFrom", j), name, h)
			if ok && !slices.Contains(targets[i].Includes, index) {
				targets[i].Includes = append(targets[i].Includes, index)
			}
		}
		p.expandGroup(pending.at, targets[i], h)
	}
}

func (p *parser) included(o *object, key, name string, h *hook.Hook) (int, bool) {
	index, count := 0, 0
	for i := range h.Kubernetes {
		if h.Kubernetes[i].Name == name {
			index, count = i, count+1
		}
	}
	switch count {
	case 0:
		o.violation(key, fmt.Sprintf("names %q, which is not found among the kubernetes bindings", name),
			"use the name of a kubernetes binding of this hook")
	case 1:
	default:
		o.violation(key, fmt.Sprintf("is ambiguous: %d kubernetes bindings have the name %q", count, name), "give each a unique name")
	}
	return index, count == 1
}

func (p *parser) expandGroup(o *object, b *hook.Binding, h *hook.Hook) {
	if b.Group == "" {
		return
	}
	named := map[string]bool{}
	for _, i := range b.Includes {
		named[h.Kubernetes[i].Name] = true
	}
	for i := range h.Kubernetes {
		k := &h.Kubernetes[i]
		if k.Group != b.Group || slices.Contains(b.Includes, i) {
			continue
		}
		if named[k.Name] {
			p.warn(indexed("kubernetes", i),
				"another binding in group %q has the name %q, too: the snapshot of that name is that of the first one; give each a unique name",
				b.Group, k.Name)
			continue
		}
		named[k.Name] = true
		b.Includes = append(b.Includes, i)
	}
}
