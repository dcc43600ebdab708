package wire

import (
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// v0 reads the configuration that has no configVersion. Its items are not checked strictly: hooks that
// still use it are old, and nobody will mend them.
func (p *parser) v0(o *object, h *hook.Hook) {
	h.Contexts = hook.NameContexts
	h.Settings = hook.Settings{Burst: 1, ContextsPerRun: 1}
	h.OnStartup = o.integer("onStartup")
	for i, item := range o.objects("schedule", 0) {
		h.Schedules = append(h.Schedules, hook.Schedule{})
		if item != nil {
			item.lenient = true
			h.Schedules[i] = p.legacySchedule(item)
		}
	}
	for i, item := range o.objects("onKubernetesEvent", 0) {
		h.Kubernetes = append(h.Kubernetes, hook.Kubernetes{})
		if item != nil {
			item.lenient = true
			h.Kubernetes[i] = p.legacyKubernetes(item)
		}
	}
	if len(o.fields) == 0 {
		o.violation("configuration", "should have at least 1 properties", `print a configuration that begins with "configVersion: v1"`)
	}
	if slices.ContainsFunc([]string{"kubernetes", "kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion", "settings"},
		func(key string) bool { _, ok := o.fields[key]; return ok }) {
		o.violation("configVersion", "is missing", `add "configVersion: v1"`)
	}
	o.close()
}

func (p *parser) legacySchedule(o *object) hook.Schedule {
	var s hook.Schedule
	s.Name = p.bindingName(o, "schedule")
	s.Crontab = o.text("crontab")
	p.crontab(o, s.Crontab)
	s.AllowFailure = o.truth("allowFailure", false)
	s.Queue = hook.MainQueue
	return s
}

func (p *parser) legacyKubernetes(o *object) hook.Kubernetes {
	k := hook.Kubernetes{Queue: hook.MainQueue, Initial: hook.InitialEvents, WaitForSynchronization: true}
	k.Name = p.bindingName(o, "onKubernetesEvent")
	if k.Kind = o.text("kind"); k.Kind == "" {
		o.violation("kind", "is required", `name a kind such as "Pod", a plural or a short name`)
	}
	p.legacyEvents(o, &k)
	if name := o.text("objectName"); name != "" {
		k.Names = []string{name}
	}
	if s := o.object("selector"); s != nil {
		k.Labels = p.selectorText(o, "selector", readLabelSelector(s))
	}
	if ns := o.object("namespaceSelector"); ns != nil && !ns.truth("any", false) {
		k.Namespaces.Names = ns.texts("matchNames", 0)
		slices.Sort(k.Namespaces.Names)
		k.Namespaces.Names = slices.Compact(k.Namespaces.Names)
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
	allowed := []string{"add", "update", "delete"}
	for i, e := range o.texts("event", 0) {
		switch e {
		case "add":
			k.Added = true
		case "update":
			k.Modified = true
		case "delete":
			k.Deleted = true
		default:
			o.violation(indexed("event", i), notOneOf(e, allowed), "")
		}
	}
}
