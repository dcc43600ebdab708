package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/schema"
	"github.com/shell-operator/shell-operator/internal/shard"
)

// v1 parses configuration version 1.
func (p *parser) v1(root *schema.Schema) {
	var c config
	p.remember()
	p.structure(root.Defs["v1"], &c)
	h := &p.hook
	p.includes = map[string][]string{}
	h.OnStartup = c.OnStartup
	p.settings(c.Settings)
	each(p, "schedule", c.Schedules, &h.Schedules, p.schedule)
	each(p, "kubernetes", c.Kubernetes, &h.Kubernetes, p.kubernetes)
	each(p, "kubernetesValidating", c.Validating, &h.Validating, p.admission)
	each(p, "kubernetesMutating", c.Mutating, &h.Mutating, p.admission)
	each(p, "kubernetesCustomResourceConversion", c.Conversions, &h.Conversions, p.conversion)
	each(p, "http", c.HTTP, &h.HTTP, p.http)
	p.unique("kubernetesValidating", h.Validating)
	p.unique("kubernetesMutating", h.Mutating)
	p.routes()
	p.undivided()
	p.link()
}

// undivided rejects a hook that divides its objects among shards and gets requests: these reach any replica, and need all objects.
func (p *parser) undivided() {
	for a, b := range p.hook.Bindings() {
		if a.Kind.Caller() != "" && p.hook.Settings.ShardBy != shard.None {
			p.violation("settings.shardBy", fmt.Sprintf("divides the objects of a hook that gets requests, by %s[%d] (binding %q)", a.Kind, a.Index,
				b.Name), "move webhook and http bindings to another hook, or remove settings.shardBy")
			return
		}
	}
}

// each appends what parse makes of each item of a list. An invalid one becomes a zero value, so that the indexes stay.
func each[C, B any](p *parser, key string, list []C, into *[]B, parse func(at string, c *C) B) {
	for i := range list {
		*into = append(*into, *new(B))
		if at := indexed(key, i); p.valid(at) {
			(*into)[i] = parse(at, &list[i])
		}
	}
}

// common returns what all bindings have. link adds the includes.
func (p *parser) common(at string, c *bindingConfig, def string) hook.Binding {
	p.includes[at] = c.Includes
	return hook.Binding{Name: cmp.Or(c.Name, def), Group: c.Group}
}

func (p *parser) settings(c *settingsConfig) {
	if c == nil {
		c = new(settingsConfig)
	}
	s := &p.hook.Settings
	*s = c.Settings
	s.ContextsPerRun = p.ContextsPerRun
	if d := duration(c.MinInterval); d != nil && *d > 0 {
		s.MinInterval, s.Burst = *d, max(1, c.Burst)
	}
	if c.ContextsPerRun != nil {
		s.ContextsPerRun = int(*c.ContextsPerRun)
	}
	if w := c.Worker; w != nil && !w.Off {
		s.Worker = &hook.Worker{MaxAge: *duration(w.MaxAge), MaxRuns: w.MaxRuns, IdleTimeout: *duration(w.IdleTimeout)}
	}
	s.ExecutionTimeout, s.Retry = duration(c.ExecutionTimeout), p.retry("settings", c.Retry, nil, false)
}

// retry checks a retry policy that overrides fields of another one, which may be nil.
func (p *parser) retry(at string, c *retryConfig, defaults *hook.Retry, allowFailure bool) *hook.Retry {
	if c == nil {
		return nil
	}
	at += ".retry"
	if allowFailure {
		p.violation(at, "is set together with allowFailure", "keep one of them: allowFailure: true is limit: 1, exhausted: drop")
	}
	r := &hook.Retry{MinDelay: duration(c.MinDelay), MaxDelay: duration(c.MaxDelay), Limit: c.Limit, Exhausted: c.Exhausted}
	if all := defaults.Override(r); all.MinDelay != nil && all.MaxDelay != nil && *all.MinDelay > *all.MaxDelay {
		key, hint := ".minDelay", "raise maxDelay or lower minDelay"
		if r.MinDelay == nil {
			key = ".maxDelay"
		}
		if r.MinDelay == nil || r.MaxDelay == nil {
			hint += ": the other one is in settings.retry"
		}
		p.violation(at+key, fmt.Sprintf("makes minDelay %s longer than maxDelay %s", shortDuration(*all.MinDelay),
			shortDuration(*all.MaxDelay)), hint)
	}
	return r
}

func (p *parser) schedule(at string, c *scheduleConfig) hook.Schedule {
	s := c.Schedule
	s.Binding, s.Queue = p.common(at, &c.bindingConfig, "schedule"), c.Queue.name()
	s.Retry = p.retry(at, c.Retry, p.hook.Settings.Retry, c.AllowFailure)
	return s
}

// link resolves names of snapshots to bindings and expands groups: a binding with a group also includes the group's kubernetes bindings.
func (p *parser) link() {
	if slices.ContainsFunc(p.violations, hidesNames) {
		return
	}
	for i := range p.hook.Kubernetes {
		if b := &p.hook.Kubernetes[i]; b.Name == "" { // an invalid one has a name nevertheless
			b.Name, _ = p.bindings[indexed("kubernetes", i)]["name"].(string)
			b.Name = cmp.Or(b.Name, "kubernetes")
		}
	}
	for a, b := range p.hook.Bindings() {
		if a.Kind == hook.OnStart {
			continue
		}
		at := indexed(string(a.Kind), a.Index)
		for j, name := range p.includes[at] {
			index, ok := p.included(at+indexed(".includeSnapshotsFrom", j), name)
			if ok && !slices.Contains(b.Includes, index) {
				b.Includes = append(b.Includes, index)
			}
		}
		p.expandGroup(b.Binding)
	}
}

// hidesNames reports whether the name of a binding may be missing because of a violation.
func hidesNames(v Violation) bool {
	at, key, inside := strings.Cut(v.Path, "].")
	if !inside {
		return !strings.Contains(at, ".")
	}
	return strings.HasPrefix(at, "kubernetes[") && (key == "name" || v.Problem == schema.UnknownKey)
}

func (p *parser) included(at, name string) (int, bool) {
	h, index, count := &p.hook, 0, 0
	for i := range h.Kubernetes {
		if h.Kubernetes[i].Name == name {
			index, count = i, count+1
		}
	}
	switch count {
	case 0:
		p.violation(at, fmt.Sprintf("names %q, which is not found among the kubernetes bindings", name),
			"use the name of a kubernetes binding of this hook")
	case 1:
	default:
		p.violation(at, fmt.Sprintf("is ambiguous: %d kubernetes bindings have the name %q", count, name), "give each a unique name")
	}
	return index, count == 1
}

func (p *parser) expandGroup(b *hook.Binding) {
	h := &p.hook
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
