package wire

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// v0 parses a configuration without configVersion. Items are checked leniently: such hooks are old and no longer maintained.
func (p *parser) v0(o *object) {
	h := &p.hook
	h.Contexts = hook.NameContexts
	h.Settings = hook.Settings{ContextsPerRun: 1}
	h.OnStartup = o.integer("onStartup")
	parseEach(o, "schedule", 0, &h.Schedules, p.legacySchedule)
	parseEach(o, "onKubernetesEvent", 0, &h.Kubernetes, p.legacyKubernetes)
	if len(o.fields) == 0 {
		o.violation("configuration", "should have at least 1 property",
			`print a configuration that begins with "configVersion: v1"; a configuration with settings only disables the hook`)
	}
	p.newerKeys(o)
	o.close()
}

// newerKeys reports a configuration that has keys of v1 and no configVersion.
func (p *parser) newerKeys(o *object) {
	o.lookup("configVersion") // so that a mistyped one gets a suggestion
	var newer []string
	for _, kind := range append(hook.Kinds(), "settings") {
		key := string(kind)
		if slices.Contains(o.known, key) {
			continue // version 0 has it, too
		}
		if _, ok := o.fields[key]; ok {
			o.lookup(key)
			newer = append(newer, key)
		}
	}
	if len(newer) > 0 {
		o.violation("configVersion", "must be v1 for "+strings.Join(newer, ", "), `write "configVersion: v1"`)
	}
}

func (p *parser) legacySchedule(o *object) hook.Schedule {
	o.lenient = true
	var s hook.Schedule
	s.Name = p.bindingName(o, "schedule")
	newerFields(o)
	s.Crontab = o.text("crontab")
	p.crontab(o, s.Crontab)
	s.AllowFailure = o.truth("allowFailure", false)
	s.Queue = hook.MainQueue
	return s
}

func (p *parser) legacyKubernetes(o *object) hook.Kubernetes {
	o.lenient = true
	k := hook.Kubernetes{Queue: hook.MainQueue, Initial: hook.InitialEvents, WaitForSynchronization: true}
	if p.SkipExistingV0 {
		k.Initial = hook.InitialNone
	}
	k.Name = p.bindingName(o, "onKubernetesEvent")
	k.Kind = o.text("kind")
	if kind, ok := o.lookup("kind"); !ok || kind == "" {
		o.violation("kind", "is required", `name a kind such as "Pod", a plural or a short name`)
	}
	newerFields(o)
	p.legacyEvents(o, &k)
	if name := o.text("objectName"); name != "" {
		k.Names = []string{name}
	}
	_, k.Labels = p.labelSelector(o, "selector")
	if ns := o.object("namespaceSelector"); ns != nil && !ns.truth("any", false) {
		k.Namespaces.Names = ns.texts("matchNames", 0)
		slices.Sort(k.Namespaces.Names)
		k.Namespaces.Names = slices.Compact(k.Namespaces.Names)
		ns.partsOfPath("matchNames", k.Namespaces.Names)
	}
	k.JQFilter = o.text("jqFilter")
	p.filter(o, k.JQFilter)
	k.AllowFailure = o.truth("allowFailure", false)
	return k
}

func (p *parser) legacyEvents(o *object, k *hook.Kubernetes) {
	if !o.has("event") {
		k.Added, k.Modified, k.Deleted = true, true, true
		return
	}
	events := o.texts("event", 0, "add", "update", "delete")
	k.Added = slices.Contains(events, "add")
	k.Modified = slices.Contains(events, "update")
	k.Deleted = slices.Contains(events, "delete")
}
