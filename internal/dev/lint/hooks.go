package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Duplicates finds conversions that are declared twice: only the first is used. The findings of each hook, by its name, have the place in
// the configuration as their Path.
func Duplicates(hooks []*hook.Hook) map[string][]Finding {
	type key struct {
		crd  string
		step hook.ConversionStep
	}
	seen, found := map[key]*hook.Hook{}, map[string][]Finding{}
	for _, h := range hooks {
		for i, c := range h.Conversions {
			for j, step := range c.Steps {
				k := key{c.CRDName, step}
				if first := seen[k]; first != nil {
					found[h.Name] = append(found[h.Name], Finding{
						Path: fmt.Sprintf("kubernetesCustomResourceConversion[%d].conversions[%d]", i, j), Level: Warning,
						Message: fmt.Sprintf("hook %q also converts %s from %s to %s, and is used instead of this one", first.Name, c.CRDName, step.From,
							step.To),
						Hint: "remove one of them"})
					continue
				}
				seen[k] = h
			}
		}
	}
	return found
}

// Configuration finds likely mistakes in a valid configuration. The Path of a finding is the place in the configuration.
func Configuration(h *hook.Hook) (found []Finding) {
	add := func(place, hint, format string, args ...any) {
		found = append(found, Finding{Path: place, Level: Warning, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for i, b := range h.Mutating {
		review(fmt.Sprintf("kubernetesMutating[%d].rules", i), b, add)
	}
	for i, b := range h.Validating {
		review(fmt.Sprintf("kubernetesValidating[%d].rules", i), b, add)
	}
	for i, k := range h.Kubernetes {
		if advice := rbac.Advice(k.APIVersion, k.Kind); advice != "" {
			add(fmt.Sprintf("kubernetes[%d].kind", i), "", "binding %q: %s", k.Name, advice)
		}
	}
	for i, b := range h.Schedules {
		text, is := strings.CutPrefix(b.Crontab, "@every ")
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if whole := max(time.Second, d.Truncate(time.Second)); is && err == nil && whole != d {
			add(fmt.Sprintf("schedule[%d].crontab", i), "write @every "+whole.String(), "%q means every %s: intervals are whole seconds", b.Crontab,
				whole)
		}
	}
	return found
}

// neverReviewed are resources for which Kubernetes calls no webhook from 1.37 on, by their group: requests that are stored nowhere.
var neverReviewed = map[string][]string{
	"authentication.k8s.io": {"tokenreviews", "selfsubjectreviews"},
	"authorization.k8s.io":  {"subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"},
}

// review finds rules that stop the cluster while their hook fails, for kinds of Kubernetes without any selector, and rules that match
// nothing, because they have kinds where resources belong, which the API server accepts.
func review(place string, b hook.Admission, add func(place, hint, format string, args ...any)) {
	selects := b.NamespaceLabels != nil || b.ObjectLabels != nil || len(b.MatchConditions) > 0
	if b.FailurePolicy != "Ignore" && !selects && slices.ContainsFunc(b.Rules, builtIn) {
		add(place, "add namespace.labelSelector, labelSelector or matchConditions, or failurePolicy: Ignore",
			"binding %q reviews all namespaces, and with failurePolicy Fail a hook that does not answer blocks them all, kube-system included",
			b.Name)
	}
	for i, r := range b.Rules {
		for j, resource := range r.Resources {
			at := fmt.Sprintf("%s[%d].resources[%d]", place, i, j)
			if slices.ContainsFunc(r.APIGroups, func(group string) bool { return slices.Contains(neverReviewed[group], resource) }) {
				add(at, "remove the resource", "binding %q: from Kubernetes 1.37 on no webhook is called for %s", b.Name, resource)
			}
			if plural := rbac.Plural(r.APIGroups, resource); plural != "" {
				add(at, "write "+plural, "binding %q: %q is a kind, not a resource, and matches nothing", b.Name, resource)
			}
		}
	}
}

// builtIn reports whether a rule matches kinds of Kubernetes.
func builtIn(r hook.Rule) bool {
	return slices.ContainsFunc(r.APIGroups, func(group string) bool {
		return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
	})
}
