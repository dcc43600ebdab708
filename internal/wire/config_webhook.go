package wire

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// admissions parses the list kubernetesValidating or kubernetesMutating.
func (p *parser) admissions(root *object, key string) (list []hook.Admission) {
	names := map[string]int{}
	parseEach(root, key, 1, &list, func(o *object) hook.Admission {
		a := p.admission(o, key == "kubernetesMutating")
		if first, ok := names[a.Name]; ok && a.Name != "" {
			o.violation("name", fmt.Sprintf("is also the name of %s", indexed(key, first)), "give each a unique name")
		} else {
			names[a.Name] = len(list) - 1
		}
		return a
	})
	return list
}

func (p *parser) admission(o *object, mutating bool) hook.Admission {
	var a hook.Admission
	a.Name = o.requiredText("name")
	o.binding = a.Name
	if jq.TypeOf(o.fields["name"]) == "string" {
		checkWebhookName(o, a.Name)
	}
	if parseEach(o, "rules", 1, &a.Rules, readRule); !o.has("rules") {
		p.warn(o.path, "has no rules: it is never called")
	}
	a.ObjectLabels, _ = p.labelSelector(o, "labelSelector")
	if ns := o.object("namespace"); ns != nil {
		a.NamespaceLabels, _ = p.labelSelector(ns, "labelSelector")
		ns.required("labelSelector")
		ns.close()
	}
	parseEach(o, "matchConditions", 0, &a.MatchConditions, func(c *object) hook.MatchCondition {
		return hook.MatchCondition{Name: c.requiredText("name"), Expression: c.requiredText("expression")}
	})
	checkConditions(o, a.MatchConditions)
	a.FailurePolicy = o.oneOf("failurePolicy", "Fail", "Ignore")
	if a.SideEffects = o.oneOf("sideEffects", "None", "NoneOnDryRun"); a.SideEffects == "" {
		a.SideEffects = "None"
	}
	a.TimeoutSeconds = 10
	if n := o.integer("timeoutSeconds"); n != nil {
		a.TimeoutSeconds = *n
		if *n < 1 || *n > 30 {
			o.violation("timeoutSeconds", fmt.Sprintf("is %d", *n), "use 1 to 30")
		}
	}
	a.MatchPolicy = o.oneOf("matchPolicy", "Exact", "Equivalent")
	if mutating {
		a.ReinvocationPolicy = o.oneOf("reinvocationPolicy", "Never", "IfNeeded")
	}
	p.includes(o, &a.Binding)
	o.close()
	return a
}

// These are limits of the API server; one condition is kept for that of excluded clients.
const (
	mostConditions = 64
	mostExpression = 100_000 // characters
)

// checkConditions rejects what the API server would reject for the webhooks of all hooks; expressions are for the API server.
func checkConditions(o *object, all []hook.MatchCondition) {
	if len(all) >= mostConditions {
		o.violation("matchConditions", fmt.Sprintf("has %d conditions", len(all)), fmt.Sprintf("use fewer than %d", mostConditions))
	}
	names := map[string]bool{}
	for _, c := range all {
		if problems := validation.IsQualifiedName(c.Name); c.Name != "" && len(problems) > 0 {
			o.violation("matchConditions", fmt.Sprintf("has the name %q: %s", c.Name, problems[0]), "use letters, digits and hyphens")
		}
		if names[c.Name] && c.Name != "" {
			o.violation("matchConditions", fmt.Sprintf("has two conditions with the name %q", c.Name), "give each a name of its own")
		}
		if n := utf8.RuneCountInString(c.Expression); n > mostExpression {
			o.violation("matchConditions", fmt.Sprintf("has an expression of %d characters in %q", n, c.Name),
				fmt.Sprintf("use at most %d", mostExpression))
		}
		names[c.Name] = true
	}
}

func checkWebhookName(o *object, name string) {
	problems := validation.IsDNS1123Subdomain(name)
	if len(problems) == 0 && strings.Count(name, ".") < 2 {
		problems = []string{"it should have at least three parts"}
	}
	if len(problems) > 0 {
		o.violation("name", fmt.Sprintf("%q is not a webhook name: %s", name, problems[0]), `use a domain name such as "deny-latest.example.com"`)
	}
}

func readRule(o *object) hook.Rule {
	r := hook.Rule{
		APIGroups:   o.requiredTexts("apiGroups", 1),
		APIVersions: o.requiredTexts("apiVersions", 1),
		Resources:   o.requiredTexts("resources", 1),
		Operations:  o.requiredTexts("operations", 1, "CREATE", "UPDATE", "DELETE", "CONNECT", "*"),
		Scope:       o.oneOf("scope", "Cluster", "Namespaced", "*"),
	}
	alone(o, "operations", r.Operations)
	alone(o, "apiGroups", r.APIGroups)
	alone(o, "apiVersions", r.APIVersions)
	notEmpty(o, "apiVersions", r.APIVersions)
	notEmpty(o, "resources", r.Resources)
	checkResources(o, r.Resources)
	o.close()
	return r
}

func alone(o *object, key string, values []string) {
	if len(values) > 1 && slices.Contains(values, "*") {
		o.violation(key, `has "*" and other entries`, `"*" must stand alone`)
	}
}

func notEmpty(o *object, key string, values []string) {
	if i := slices.Index(values, ""); i >= 0 {
		o.violation(indexed(key, i), "is empty", "")
	}
}

// checkResources reports entries that another one covers, which the API server rejects.
func checkResources(o *object, resources []string) {
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		o.violation("resources", `has "*/*" and other entries`, `"*/*" must stand alone`)
	}
	star := slices.Contains(resources, "*")
	all, sub := map[string]bool{}, map[string]bool{} // x of "x/*", y of "*/y"
	for i, text := range resources {
		resource, part, hasPart := strings.Cut(text, "/")
		at := indexed("resources", i)
		switch {
		case !hasPart && star && text != "*":
			o.violation(at, fmt.Sprintf(`%q is covered by "*"`, text), `"*" must not be mixed with names of resources`)
		case !hasPart:
		case text != "*/*" && slices.Contains(resources[:i], text):
			o.violation(at, fmt.Sprintf("%q is a duplicate", text), "remove it")
		case all[resource] && part != "*":
			o.violation(at, fmt.Sprintf("%q is covered by \"%s/*\"", text, resource), "remove it")
		case sub[part] && resource != "*":
			o.violation(at, fmt.Sprintf("%q is covered by \"*/%s\"", text, part), "remove it")
		}
		all[resource] = all[resource] || part == "*"
		sub[part] = sub[part] || hasPart && resource == "*"
	}
}

func (p *parser) conversion(o *object) hook.Conversion {
	var c hook.Conversion
	c.Name = o.requiredText("name")
	o.binding = c.Name
	c.CRDName = o.requiredText("crdName")
	o.required("conversions")
	parseEach(o, "conversions", 1, &c.Steps, func(step *object) hook.ConversionStep {
		defer step.close()
		return hook.ConversionStep{From: step.requiredText("fromVersion"), To: step.requiredText("toVersion")}
	})
	p.includes(o, &c.Binding)
	o.close()
	return c
}
