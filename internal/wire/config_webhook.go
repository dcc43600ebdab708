package wire

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// mostExpression is the limit of the API server for an expression, in characters.
const mostExpression = 100_000

func (p *parser) admission(at string, c *admissionConfig) hook.Admission {
	a := c.Admission
	a.Binding = p.common(at, &c.bindingConfig, "")
	a.SideEffects, a.TimeoutSeconds = cmp.Or(c.SideEffects, "None"), cmp.Or(c.TimeoutSeconds, 10)
	if len(c.Rules) == 0 {
		p.warn(at, "has no rules: it is never called")
	}
	for i := range c.Rules {
		p.rule(at+indexed(".rules", i), &c.Rules[i])
	}
	a.ObjectLabels, _ = p.labelSelector(at+".labelSelector", c.Labels)
	if c.Namespace != nil {
		a.NamespaceLabels, _ = p.labelSelector(at+".namespace.labelSelector", c.Namespace.Labels)
	}
	names := map[string]bool{}
	for _, c := range a.MatchConditions {
		if names[c.Name] && c.Name != "" {
			p.violation(at+".matchConditions", fmt.Sprintf("has two conditions with the name %q", c.Name), "give each a name of its own")
		}
		if n := utf8.RuneCountInString(c.Expression); n > mostExpression {
			p.violation(at+".matchConditions", fmt.Sprintf("has an expression of %d characters in %q", n, c.Name),
				fmt.Sprintf("use at most %d", mostExpression))
		}
		names[c.Name] = true
	}
	return a
}

// unique checks that webhooks of a type have different names.
func (p *parser) unique(key string, list []hook.Admission) {
	names := map[string]int{}
	for i, a := range list {
		if first, ok := names[a.Name]; ok && a.Name != "" {
			p.violation(indexed(key, i)+".name", "is also the name of "+indexed(key, first), "give each a unique name")
		} else {
			names[a.Name] = i
		}
	}
}

// rule checks what the API server would reject.
func (p *parser) rule(at string, r *hook.Rule) {
	for _, one := range []struct {
		key    string
		values []string
	}{{".operations", r.Operations}, {".apiGroups", r.APIGroups}, {".apiVersions", r.APIVersions}} {
		if len(one.values) > 1 && slices.Contains(one.values, "*") {
			p.violation(at+one.key, `has "*" and other entries`, `"*" must stand alone`)
		}
	}
	p.resources(at+".resources", r.Resources)
}

// resources reports entries that another one covers, which the API server rejects.
func (p *parser) resources(at string, resources []string) {
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		p.violation(at, `has "*/*" and other entries`, `"*/*" must stand alone`)
	}
	star := slices.Contains(resources, "*")
	all, sub := map[string]bool{}, map[string]bool{} // x of "x/*", y of "*/y"
	for i, text := range resources {
		resource, part, hasPart := strings.Cut(text, "/")
		at := indexed(at, i)
		switch {
		case !hasPart && star && text != "*":
			p.violation(at, fmt.Sprintf(`%q is covered by "*"`, text), `"*" must not be mixed with names of resources`)
		case !hasPart:
		case text != "*/*" && slices.Contains(resources[:i], text):
			p.violation(at, fmt.Sprintf("%q is a duplicate", text), "remove it")
		case all[resource] && part != "*":
			p.violation(at, fmt.Sprintf("%q is covered by \"%s/*\"", text, resource), "remove it")
		case sub[part] && resource != "*":
			p.violation(at, fmt.Sprintf("%q is covered by \"*/%s\"", text, part), "remove it")
		}
		all[resource] = all[resource] || part == "*"
		sub[part] = sub[part] || hasPart && resource == "*"
	}
}

func (p *parser) conversion(at string, c *conversionConfig) hook.Conversion {
	c.Binding, c.Conversion.Steps = p.common(at, &c.bindingConfig, ""), c.Steps
	if name := c.CRDName; strings.Count(name, ".") < 2 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		p.warn(at+".crdName", "%q is not the name of a CRD: write PLURAL.GROUP, such as widgets.example.com", name)
	}
	for i, step := range c.Steps {
		if path.Base(step.From) == path.Base(step.To) {
			p.warn(at+indexed(".conversions", i), "converts %s to itself: it is never called", path.Base(step.From))
		}
	}
	return c.Conversion
}
