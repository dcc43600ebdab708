package wire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

func (p *parser) kubernetes(o *object) hook.Kubernetes {
	var k hook.Kubernetes
	k.Name = p.bindingName(o, "kubernetes")
	k.APIVersion = o.text("apiVersion")
	switch gv, err := schema.ParseGroupVersion(k.APIVersion); {
	case err != nil:
		o.violation("apiVersion", fmt.Sprintf("%q has too many slashes", k.APIVersion), `write "group/version" or "version"`)
	case gv.Version != "" && len(validation.IsDNS1035Label(gv.Version)) > 0,
		gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0:
		// It becomes a part of the path of a request.
		o.violation("apiVersion", fmt.Sprintf("%q is no version", k.APIVersion), `write "group/version" or "version", such as apps/v1`)
	}
	k.Kind = o.requiredText("kind")
	if o.has("kind") && o.fields["kind"] == "" {
		o.violation("kind", "is empty", `name a kind such as "Pod", a plural or a short name`)
	}
	k.Queue, k.Lanes = p.queue(o)
	k.AllowFailure = o.truth("allowFailure", false)
	k.Retry = p.retry(o, p.hook.Settings.Retry)
	k.Finalizer = o.text("finalizer")
	p.watchEvents(o, &k)
	p.initial(o, &k)
	p.initialObjects(o, &k)
	p.selectors(o, &k)

	k.KeepFullObjects = o.truth("keepFullObjectsInMemory", true)
	if o.has("keepManagedFields") {
		keep := o.truth("keepManagedFields", true)
		k.KeepManagedFields = &keep
	}
	k.JQFilter = o.text("jqFilter")
	p.filter(o, k.JQFilter)
	k.Resync = p.resync(o)
	p.includes(o, &k.Binding)
	p.condition(o, &k)
	if k.IncludePrevious = o.truth("includePrevious", false); k.IncludePrevious && k.Group != "" {
		o.violation("includePrevious", "is set together with group", "remove one of them: the contexts of a group have no object")
	}
	p.finalizer(o, &k)
	o.close()
	return k
}

// condition parses the type of the condition that the operator maintains.
func (p *parser) condition(o *object, k *hook.Kubernetes) {
	const key = "conditions"
	k.Condition = o.text(key)
	switch v, given := o.lookup(key); {
	case !given || jq.TypeOf(v) != "string":
	case !isConditionType(k.Condition) || len(k.Condition) > maxConditionType:
		o.violation(key, fmt.Sprintf("%q is not a type of a condition", k.Condition),
			`write a word such as "Ready", or with a prefix, such as "example.com/Ready"`)
	case k.Group != "":
		o.violation(key, "is set together with group", "remove one of them: the contexts of a group have no object")
	case k.Lanes.Key != hook.ByObject:
		o.violation(key, "needs a queue with key: object", "write queue: {name: NAME, key: object}: then a run is about one object")
	}
}

func (p *parser) watchEvents(o *object, k *hook.Kubernetes) {
	allowed := []string{"Added", "Modified", "Deleted"}
	if k.Finalizer != "" {
		allowed = append(allowed, "Deleting")
	}
	events := allowed
	// The older key is checked even when the newer one takes precedence.
	for _, key := range []string{"watchEvent", "executeHookOnEvent"} {
		if !o.has(key) {
			continue
		}
		if list, _ := o.fields[key].([]any); k.Finalizer == "" && slices.Contains(list, any("Deleting")) {
			o.violation(key, "has Deleting, but the binding has no finalizer", "add finalizer, such as example.com/cleanup, or remove Deleting")
			continue
		}
		if events = o.texts(key, 0, allowed...); k.Finalizer != "" && !slices.Contains(events, "Deleting") {
			o.violation(key, "has no Deleting, but the binding has a finalizer", "add Deleting: only its run removes the finalizer")
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
		if queue, ok := o.lookup("queue"); !ok || queue == "" {
			p.warn(joined(o.path, "waitForSynchronization"), "has no effect without a queue: set queue for the binding")
		} else {
			k.WaitForSynchronization = false
		}
	}
}

func (p *parser) filter(o *object, text string) {
	if text != "" {
		p.compiles(o, "jqFilter", text)
	}
}

func (p *parser) compiles(o *object, key, text string) {
	if _, err := p.JQ.Compile(text); err != nil {
		o.violation(key, fmt.Sprintf("does not compile: %v", err), p.filterHint(text))
	}
}

var (
	// A path without its dot; functions of jq begin with other words.
	bareField = regexp.MustCompile(`^(metadata|spec|status|data|kind|apiVersion|[A-Za-z_]\w*[.[])`)
	// A field whose name jq reads as a subtraction.
	dashedField = regexp.MustCompile(`\.(\w+(?:-\w+)+)`)
)

// filterHint is the probable correction of a filter that does not compile.
func (p *parser) filterHint(text string) string {
	right := text
	if bareField.MatchString(right) {
		right = "." + right
	}
	right = dashedField.ReplaceAllString(right, `["$1"]`)
	if right = strings.ReplaceAll(right, `.["`, `["`); right != text {
		if strings.HasPrefix(right, `["`) {
			right = "." + right
		}
		if _, err := p.JQ.Compile(right); err == nil {
			return "write " + right
		}
	}
	return "try it with the jq command"
}

func (p *parser) resync(o *object) time.Duration {
	text := o.text("resynchronizationPeriod")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.warn(joined(o.path, "resynchronizationPeriod"), "%q is not a duration such as \"10m\" or \"1h30m\": there is no resync", text)
		return 0
	}
	return d
}

func (p *parser) selectors(o *object, k *hook.Kubernetes) {
	k.Names = matchNames(o.object("nameSelector"))
	_, k.Labels = p.labelSelector(o, "labelSelector")
	k.Fields = p.fieldSelector(o, len(k.Names) > 0)
	ns := o.object("namespace")
	if ns == nil {
		return
	}
	k.Namespaces.Names = namespaceNames(ns.object("nameSelector"))
	if s, text := p.labelSelector(ns, "labelSelector"); s != nil {
		if len(k.Namespaces.Names) > 0 {
			p.warn(joined(ns.path, "nameSelector"), "is ignored because there is a labelSelector: keep one of them")
		}
		k.Namespaces = hook.Namespaces{Labels: text, ByLabels: true}
	}
	atLeastOne(ns)
	ns.close()
}

// atLeastOne rejects an empty object.
func atLeastOne(o *object) {
	if len(o.fields) == 0 && !o.lenient {
		o.violation("", "should have at least 1 property", "add one of "+o.knownKeys())
	}
}

// matchNames parses a nameSelector. The result is sorted and has no duplicates.
func matchNames(o *object) []string {
	if o == nil {
		return nil
	}
	names := o.requiredTexts("matchNames", 0)
	o.close()
	slices.Sort(names)
	return slices.Compact(names)
}

// namespaceNames parses a nameSelector of namespaces. Each name becomes a part of a request's path.
func namespaceNames(o *object) []string {
	names := matchNames(o)
	o.partsOfPath("matchNames", names)
	return names
}

// partsOfPath rejects names that would change the path of a request.
func (o *object) partsOfPath(key string, names []string) {
	for _, name := range names {
		if problems := content.IsPathSegmentName(name); len(problems) > 0 {
			o.violation(key, fmt.Sprintf("has %.100q, which %s", name, strings.Join(problems, " and ")), "write names of namespaces")
		}
	}
}

// labelSelector parses a label selector and also returns its text form for the API server. It returns nil if there is none or
// it has violations.
func (p *parser) labelSelector(parent *object, key string) (*hook.LabelSelector, string) {
	o := parent.object(key)
	if o == nil {
		return nil, ""
	}
	before := len(p.violations)
	s := readLabelSelector(o)
	atLeastOne(o)
	o.close()
	if len(p.violations) > before {
		return nil, ""
	}
	text := checkLabelSelector(o, s)
	if len(p.violations) > before {
		return nil, ""
	}
	return s, text
}

func readLabelSelector(o *object) *hook.LabelSelector {
	s := &hook.LabelSelector{MatchLabels: o.textMap("matchLabels")}
	parseEach(o, "matchExpressions", 0, &s.MatchExpressions, func(e *object) hook.LabelRequirement {
		defer e.close()
		r := hook.LabelRequirement{Key: e.requiredText("key")}
		r.Operator = metav1.LabelSelectorOperator(e.oneOf("operator", "In", "NotIn", "Exists", "DoesNotExist"))
		e.required("operator")
		r.Values = e.texts("values", 0)
		return r
	})
	return s
}

// checkLabelSelector reports each part that the API server would reject, and returns the text form.
func checkLabelSelector(o *object, s *hook.LabelSelector) string {
	var all labels.Requirements
	add := func(key string, part metav1.LabelSelector) {
		selector, err := metav1.LabelSelectorAsSelector(&part)
		if err != nil {
			o.violation(key, "is not a selector: "+err.Error(), "")
			return
		}
		requirements, _ := selector.Requirements()
		all = append(all, requirements...)
	}
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		add(joined("matchLabels", k), metav1.LabelSelector{MatchLabels: map[string]string{k: s.MatchLabels[k]}})
	}
	for i, e := range s.MatchExpressions {
		add(indexed("matchExpressions", i), metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
	}
	return labels.NewSelector().Add(all...).String()
}

func (p *parser) fieldSelector(parent *object, named bool) string {
	o := parent.object("fieldSelector")
	if o == nil {
		return ""
	}
	var terms []fields.Selector
	o.required("matchExpressions")
	for _, e := range o.objects("matchExpressions", 0) {
		if e == nil {
			continue
		}
		field, value := e.requiredText("field"), e.requiredText("value")
		e.required("operator")
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
	// equal selectors are equal texts
	slices.SortFunc(terms, func(a, b fields.Selector) int { return strings.Compare(a.String(), b.String()) })
	return fields.AndSelectors(terms...).String()
}
