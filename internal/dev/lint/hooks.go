package lint

import (
	"fmt"
	"iter"
	"slices"
	"strings"

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

// Webhooks yields the admission bindings of a hook with their places in the configuration.
func Webhooks(h *hook.Hook) iter.Seq2[string, *hook.Admission] {
	return func(yield func(string, *hook.Admission) bool) {
		for i := range h.Mutating {
			if !yield(fmt.Sprintf("kubernetesMutating[%d]", i), &h.Mutating[i]) {
				return
			}
		}
		for i := range h.Validating {
			if !yield(fmt.Sprintf("kubernetesValidating[%d]", i), &h.Validating[i]) {
				return
			}
		}
	}
}

// Unselective finds bindings that stop the cluster while their hook fails: of kinds of Kubernetes, without any selector, and not to be
// ignored. The Path of a finding is the place in the configuration.
func Unselective(h *hook.Hook) (found []Finding) {
	for place, b := range Webhooks(h) {
		selects := b.NamespaceLabels != nil || b.ObjectLabels != nil || len(b.MatchConditions) > 0
		if b.FailurePolicy != "Ignore" && !selects && slices.ContainsFunc(b.Rules, builtIn) {
			found = append(found, Finding{Path: place + ".rules", Level: Warning,
				Message: fmt.Sprintf("binding %q reviews all namespaces, and with failurePolicy Fail a hook that does not answer blocks them all, "+
					"kube-system included", b.Name),
				Hint: "add namespace.labelSelector, labelSelector or matchConditions, or failurePolicy: Ignore"})
		}
	}
	return found
}

// neverReviewed are resources for which Kubernetes calls no webhook from 1.37 on, by their group: requests that are stored nowhere.
var neverReviewed = map[string][]string{
	"authentication.k8s.io": {"tokenreviews", "selfsubjectreviews"},
	"authorization.k8s.io":  {"subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"},
}

// NeverReviewed finds rules for such resources. The Path of a finding is the place in the configuration.
func NeverReviewed(h *hook.Hook) (found []Finding) {
	for place, b := range Webhooks(h) {
		for i, r := range b.Rules {
			for j, resource := range r.Resources {
				if slices.ContainsFunc(r.APIGroups, func(group string) bool { return slices.Contains(neverReviewed[group], resource) }) {
					found = append(found, Finding{Path: fmt.Sprintf("%s.rules[%d].resources[%d]", place, i, j), Level: Warning,
						Message: fmt.Sprintf("binding %q: from Kubernetes 1.37 on no webhook is called for %s", b.Name, resource),
						Hint:    "remove the resource"})
				}
			}
		}
	}
	return found
}

// builtIn reports whether a rule matches kinds of Kubernetes.
func builtIn(r hook.Rule) bool {
	return slices.ContainsFunc(r.APIGroups, func(group string) bool {
		return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
	})
}
