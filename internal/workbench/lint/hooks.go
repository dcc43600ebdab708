package lint

import (
	"fmt"

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
