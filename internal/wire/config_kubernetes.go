package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func (p *parser) kubernetes(o *object, all *bindings) hook.Kubernetes {
	var k hook.Kubernetes
	k.Name = p.bindingName(o, "kubernetes")
	k.APIVersion = o.text("apiVersion")
	if _, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
		o.violation("apiVersion", fmt.Sprintf("%q has too many slashes", k.APIVersion), `write "group/version" or "version"`)
	}
	k.Kind = o.requiredText("kind")
	if o.has("kind") && o.fields["kind"] == "" {
		o.violation("kind", "is empty", `name a kind such as "Pod", a plural or a short name`)
	}
	k.Queue = queueName(o)
	k.AllowFailure = o.truth("allowFailure", false)
	p.watchEvents(o, &k)
	p.initial(o, &k)
	p.selectors(o, &k)

	k.KeepFullObjects = o.truth("keepFullObjectsInMemory", true)
	if o.has("keepManagedFields") {
		keep := o.truth("keepManagedFields", true)
		k.KeepManagedFields = &keep
	}
	k.JQFilter = o.text("jqFilter")
	p.filter(o, k.JQFilter)
	k.Resync = p.resync(o)
	p.includes(o, &k.Binding, all)
	o.close()
	return k
}

func (p *parser) watchEvents(o *object, k *hook.Kubernetes) {
	allowed := []string{"Added", "Modified", "Deleted"}
	events := allowed
	// The older spelling is checked even when the newer one wins.
	for _, key := range []string{"watchEvent", "executeHookOnEvent"} {
		if !o.has(key) {
			continue
		}
		events = o.texts(key, 0)
		for i, e := range events {
			if !slices.Contains(allowed, e) {
				o.violation(indexed(key, i), notOneOf(e, allowed), "")
			}
		}
	}
	k.Added = slices.Contains(events, "Added")
	k.Modified = slices.Contains(events, "Modified")
	k.Deleted = slices.Contains(events, "Deleted")
}

func (p *parser) initial(o *object, k *hook.Kubernetes) {
	k.Initial = hook.InitialList
	if !o.truth("executeHookOnSynchronization", true) {
		k.Initial = hook.InitialNone
	}
	k.WaitForSynchronization = true
	if !o.truth("waitForSynchronization", true) {
		if o.text("queue") == "" {
			p.warn(joined(o.path, "waitForSynchronization"), "has no effect without a queue of the binding's own")
		} else {
			k.WaitForSynchronization = false
		}
	}
}

func (p *parser) filter(o *object, text string) {
	if text == "" {
		return
	}
	if _, err := p.JQ.Compile(text); err != nil {
		o.violation("jqFilter", fmt.Sprintf("does not compile: %v", err), "try it with the jq command")
	}
}

func (p *parser) resync(o *object) time.Duration {
	text := o.text("resynchronizationPeriod")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.warn(joined(o.path, "resynchronizationPeriod"), "%q is not a duration such as \"10m\" or \"1h30m\": the objects will not be listed again", text)
		return 0
	}
	return d
}

func (p *parser) selectors(o *object, k *hook.Kubernetes) {
	k.Names = matchNames(o.object("nameSelector"))
	if s := p.labelSelector(o); s != nil {
		k.Labels = p.selectorText(o, "labelSelector", s)
	}
	k.Fields = p.fieldSelector(o, len(k.Names) > 0)
	ns := o.object("namespace")
	if ns == nil {
		return
	}
	k.Namespaces.Names = matchNames(ns.object("nameSelector"))
	if s := p.labelSelector(ns); s != nil {
		if len(k.Namespaces.Names) > 0 {
			p.warn(joined(ns.path, "nameSelector"), "is ignored because labelSelector is given too: keep one of them")
		}
		k.Namespaces = hook.Namespaces{Labels: p.selectorText(ns, "labelSelector", s), ByLabels: true}
	}
	atLeastOne(ns)
	ns.close()
}

// atLeastOne rejects an object without any known key.
func atLeastOne(o *object) {
	for _, key := range o.known {
		if _, ok := o.fields[key]; ok {
			return
		}
	}
	o.violation("", "should have at least 1 properties", "add one of "+strings.Join(slices.Compact(slices.Sorted(slices.Values(o.known))), ", "))
}

// matchNames reads a nameSelector. The result is sorted and has no duplicates.
func matchNames(o *object) []string {
	if o == nil {
		return nil
	}
	names := o.requiredTexts("matchNames", 0)
	o.close()
	slices.Sort(names)
	return slices.Compact(names)
}

// labelSelector reads the labelSelector of an object, or returns nil.
func (p *parser) labelSelector(parent *object) *hook.LabelSelector {
	o := parent.object("labelSelector")
	if o == nil {
		return nil
	}
	s := readLabelSelector(o)
	atLeastOne(o)
	o.close()
	return s
}

func readLabelSelector(o *object) *hook.LabelSelector {
	s := &hook.LabelSelector{MatchLabels: o.textMap("matchLabels")}
	for _, e := range o.objects("matchExpressions", 0) {
		if e == nil {
			continue
		}
		r := hook.LabelRequirement{Key: e.requiredText("key")}
		if r.Operator = e.oneOf("operator", "In", "NotIn", "Exists", "DoesNotExist"); !e.has("operator") {
			e.violation("operator", "is required", "")
		}
		r.Values = e.texts("values", 0)
		e.close()
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// selectorText gives the selector's form for the API server's query, and reports one that it would refuse.
func (p *parser) selectorText(parent *object, key string, s *hook.LabelSelector) string {
	selector := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, e := range s.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		parent.violation(key, "is not a selector: "+err.Error(), "")
		return ""
	}
	return parsed.String()
}

func (p *parser) fieldSelector(parent *object, named bool) string {
	o := parent.object("fieldSelector")
	if o == nil {
		return ""
	}
	var terms []fields.Selector
	if !o.has("matchExpressions") {
		o.violation("matchExpressions", "is required", "")
	}
	for _, e := range o.objects("matchExpressions", 0) {
		if e == nil {
			continue
		}
		field, value := e.requiredText("field"), e.requiredText("value")
		if !e.has("operator") {
			e.violation("operator", "is required", "")
		}
		switch e.oneOf("operator", "=", "==", "Equals", "!=", "NotEquals") {
		case "=", "==", "Equals":
			terms = append(terms, fields.OneTermEqualSelector(field, value))
		case "!=", "NotEquals":
			terms = append(terms, fields.OneTermNotEqualSelector(field, value))
		}
		if named && field == "metadata.name" {
			e.violation("field", "is metadata.name, but nameSelector is given too", "keep one of them")
		}
		e.close()
	}
	o.close()
	if len(terms) == 0 {
		return ""
	}
	return fields.AndSelectors(terms...).String()
}
