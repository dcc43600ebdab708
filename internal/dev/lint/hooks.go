package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Duplicate is a conversion that two hooks declare.
type Duplicate struct {
	CRD, From, To string
	First, Second *hook.Hook
	// Path is the place in the configuration of Second.
	Path string
}

func (d Duplicate) String() string {
	return fmt.Sprintf("hook %q also converts %s from %s to %s, and is used instead of this one", d.First.Name, d.CRD, d.From, d.To)
}

// Duplicates finds conversions that are declared twice: only the first is used.
func Duplicates(hooks []*hook.Hook) (found []Duplicate) {
	type key struct {
		crd  string
		step hook.ConversionStep
	}
	seen := map[key]*hook.Hook{}
	for _, h := range hooks {
		for i, c := range h.Conversions {
			for j, step := range c.Steps {
				k := key{c.CRDName, step}
				if first := seen[k]; first != nil {
					path := fmt.Sprintf("kubernetesCustomResourceConversion[%d].conversions[%d]", i, j)
					found = append(found, Duplicate{c.CRDName, step.From, step.To, first, h, path})
					continue
				}
				seen[k] = h
			}
		}
	}
	return found
}

// Unselective is an admission binding that reviews all requests for a kind of Kubernetes.
type Unselective struct {
	Binding *hook.Admission
	// Path is its place in the configuration.
	Path string
}

func (u Unselective) String() string {
	return fmt.Sprintf("binding %q reviews all namespaces, and with failurePolicy Fail a hook that does not answer blocks them all, "+
		"kube-system included", u.Binding.Name)
}

// Unselectives finds bindings that stop the cluster while their hook fails: of kinds of Kubernetes, without any selector, and not to be
// ignored.
func Unselectives(h *hook.Hook) (found []Unselective) {
	for _, list := range []struct {
		key      string
		bindings []hook.Admission
	}{{"kubernetesMutating", h.Mutating}, {"kubernetesValidating", h.Validating}} {
		for i := range list.bindings {
			b := &list.bindings[i]
			selects := b.NamespaceLabels != nil || b.ObjectLabels != nil || len(b.MatchConditions) > 0
			if b.FailurePolicy != "Ignore" && !selects && slices.ContainsFunc(b.Rules, builtIn) {
				found = append(found, Unselective{b, fmt.Sprintf("%s[%d].rules", list.key, i)})
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
