package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/schema"
)

type legacyConfig struct {
	OnStartup  *int               `json:"onStartup"`
	Schedules  []scheduleConfig   `json:"schedule"`
	Kubernetes []legacyKubernetes `json:"onKubernetesEvent"`
}

type legacyKubernetes struct {
	hook.Kubernetes
	Name      string              `json:"name"`
	Events    []string            `json:"event"`
	Object    string              `json:"objectName"`
	Labels    *hook.LabelSelector `json:"selector"`
	Namespace struct {
		Any   bool     `json:"any"`
		Names []string `json:"matchNames"`
	} `json:"namespaceSelector"`
}

// v0 parses a configuration without configVersion. Items are checked leniently: such hooks are old and no longer maintained.
func (p *parser) v0(root *schema.Schema) {
	s := root.Defs["v0"]
	var misplaced []string
	for _, kind := range append(hook.Kinds(), "settings") {
		if _, has := p.tree[string(kind)]; has && s.Properties[string(kind)] == nil {
			misplaced = append(misplaced, string(kind))
			delete(p.tree, string(kind))
		}
	}
	if len(misplaced) > 0 {
		p.violation("configVersion", "must be v1 for "+strings.Join(misplaced, ", "), `write "configVersion: v1"`)
	}
	for _, key := range []string{"schedule", "onKubernetesEvent"} {
		if list, ok := p.tree[key].([]any); ok {
			p.tree[key] = fold(s.Properties[key], list)
		}
	}
	p.remember()
	var c legacyConfig
	p.structure(s, &c)
	p.hook.Contexts = hook.NameContexts
	p.hook.Settings = hook.Settings{ContextsPerRun: 1}
	p.hook.OnStartup = c.OnStartup
	for _, b := range c.Schedules {
		b.Schedule.Binding, b.Schedule.Queue = hook.Binding{Name: cmp.Or(b.Name, "schedule")}, hook.MainQueue
		p.hook.Schedules = append(p.hook.Schedules, b.Schedule)
	}
	for i := range c.Kubernetes {
		p.hook.Kubernetes = append(p.hook.Kubernetes, p.legacyKubernetes(indexed("onKubernetesEvent", i), &c.Kubernetes[i]))
	}
}

func (p *parser) legacyKubernetes(at string, c *legacyKubernetes) hook.Kubernetes {
	k := c.Kubernetes
	k.Binding, k.Queue = hook.Binding{Name: cmp.Or(c.Name, "onKubernetesEvent")}, hook.MainQueue
	k.Initial, k.WaitForSynchronization = hook.InitialEvents, true
	if p.SkipExistingV0 {
		k.Initial = hook.InitialNone
	}
	has := func(event string) bool { return c.Events == nil || slices.Contains(c.Events, event) }
	k.Added, k.Modified, k.Deleted = has("add"), has("update"), has("delete")
	if c.Object != "" {
		k.Names = []string{c.Object}
	}
	_, k.Labels = p.labelSelector(joined(at, "selector"), c.Labels)
	if !c.Namespace.Any {
		for i, name := range c.Namespace.Names {
			if problem, hint := checkNamespace(name); problem != "" {
				p.violation(indexed(at+".namespaceSelector.matchNames", i), problem, hint)
			}
		}
		k.Namespaces.Names = unique(c.Namespace.Names)
	}
	return k
}

// fold returns a value without what version 0 ignores: unknown keys and null. Keys can be in any case, and texts any scalars.
func fold(s *schema.Schema, value any) any {
	switch value := value.(type) {
	case map[string]any:
		folded := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, child := key, cmp.Or(s.Properties[key], s.Additional)
			for known, as := range s.Properties {
				if _, exact := value[known]; child == nil && !exact && strings.EqualFold(known, key) {
					name, child = known, as
				}
			}
			if child != nil && value[key] != nil {
				folded[name] = fold(child, value[key])
			}
		}
		return folded
	case []any:
		for i := range value {
			if s.Items != nil {
				value[i] = fold(s.Items, value[i])
			}
		}
	case bool:
		if slices.Contains(s.Types, "string") {
			return strconv.FormatBool(value)
		}
	case json.Number:
		if slices.Contains(s.Types, "string") {
			return value.String()
		}
	}
	return value
}
