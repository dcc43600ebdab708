package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func (p *parser) kubernetes(at string, c *kubernetesConfig) hook.Kubernetes {
	k := c.Kubernetes
	k.Binding, k.Queue = p.common(at, &c.bindingConfig, "kubernetes"), c.Queue.name()
	k.Retry = p.retry(at, c.Retry, p.hook.Settings.Retry, c.AllowFailure)
	k.Condition, k.IgnoreOwn = c.Condition, c.OwnChanges == "ignore"
	k.KeepFullObjects, k.Initial, k.WaitForSynchronization = or(c.FullObjects, true), hook.InitialList, true
	p.lanes(at+".queue", c.Queue, &k)
	p.watchEvents(at, c, &k)
	p.initial(at, c, &k)
	p.selectors(at, c, &k)
	k.Resync = p.resync(at, c.Resync)
	switch {
	case k.Condition == "":
	case k.Group != "":
		p.violation(at+".conditions", "is set together with group", "remove one of them: the contexts of a group have no object")
	case k.Lanes.Key != hook.ByObject:
		p.violation(at+".conditions", "needs a queue with key: object", "write queue: {name: NAME, key: object}: then a run is about one object")
	}
	if k.IncludePrevious && k.Group != "" {
		p.violation(at+".includePrevious", "is set together with group", "remove one of them: the contexts of a group have no object")
	}
	p.finalizer(at, &k)
	switch {
	case !k.Optional:
	case k.APIVersion == "":
		p.violation(at+".optional", "is set without apiVersion",
			"add apiVersion: without it no answer of the API server says that a kind is not installed")
	case k.Finalizer != "":
		p.violation(at+".optional", "is set together with finalizer",
			"remove one of them: a kind that goes while its objects have the finalizer cannot be cleaned up")
	}
	return k
}

// or is the value of an optional key.
func or(b *bool, def bool) bool {
	if b == nil {
		return def
	}
	return *b
}

// lanes checks a queue with a key.
func (p *parser) lanes(at string, c *queueConfig, k *hook.Kubernetes) {
	switch {
	case c == nil:
	case c.Key != "" && k.Queue == hook.MainQueue:
		p.violation(at+".key", "is set for the queue main, which cannot have one",
			"set name to another queue: main also orders the start of all hooks")
	case c.Key != "":
		k.Lanes = hook.Lanes{Key: c.Key, Concurrency: max(1, c.Concurrency)}
	case c.Concurrency > 1:
		p.violation(at+".concurrency", fmt.Sprintf("is %d, but the queue has no key", c.Concurrency),
			"set key: events with the same key stay in order, others run in parallel")
	}
}

func (p *parser) watchEvents(at string, c *kubernetesConfig, k *hook.Kubernetes) {
	// The older key is checked even when the newer one takes precedence.
	for _, one := range []struct {
		key    string
		events []string
	}{{".watchEvent", c.WatchEvents}, {".executeHookOnEvent", c.Events}} {
		switch has := slices.Contains(one.events, "Deleting"); {
		case one.events == nil:
		case has && k.Finalizer == "":
			p.violation(at+one.key, "has Deleting, but the binding has no finalizer",
				"add finalizer, such as example.com/cleanup, or remove Deleting")
		case !has && k.Finalizer != "":
			p.violation(at+one.key, "has no Deleting, but the binding has a finalizer", "add Deleting: only its run removes the finalizer")
		}
	}
	events := c.Events
	if events == nil {
		events = c.WatchEvents
	}
	runs := func(event string) bool { return events == nil || slices.Contains(events, event) }
	k.Added, k.Modified, k.Deleted = runs("Added"), runs("Modified"), runs("Deleted")
}

// EventsOf are the changes that run the hook.
func EventsOf(k *hook.Kubernetes) []string {
	list := []string{}
	for _, e := range []struct {
		runs bool
		word string
	}{{k.Added, "Added"}, {k.Modified, "Modified"}, {k.Deleted, "Deleted"}, {k.Finalizer != "", "Deleting"}} {
		if e.runs {
			list = append(list, e.word)
		}
	}
	return list
}

// initial parses how the existing objects are delivered.
func (p *parser) initial(at string, c *kubernetesConfig, k *hook.Kubernetes) {
	if !or(c.Synchronization, true) {
		k.Initial = hook.InitialNone
	}
	if !or(c.Wait, true) {
		if c.Queue == nil || c.Queue.Name == "" {
			p.warn(at+".waitForSynchronization", "has no effect without a queue: set queue for the binding")
		} else {
			k.WaitForSynchronization = false
		}
	}
	if c.Initial != "added" {
		return
	}
	if k.Initial == hook.InitialNone {
		p.violation(at+".initialObjects", "is added, but executeHookOnSynchronization is false",
			"keep one of them: added delivers the existing objects, false does not")
	}
	if !k.Added {
		p.violation(at+".initialObjects", "is added, but executeHookOnEvent has no Added", "add Added, or omit initialObjects")
	}
	k.Initial, k.WaitForSynchronization = hook.InitialEvents, false
}

func (p *parser) resync(at, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if text != "" && (err != nil || d <= 0) {
		p.warn(at+".resynchronizationPeriod", "%q is not a duration such as \"10m\" or \"1h30m\": there is no resync", text)
	}
	return max(0, d)
}

// finalizer checks that the events of a binding can lead to the removal of its finalizer.
func (p *parser) finalizer(at string, k *hook.Kubernetes) {
	if k.Finalizer == "" {
		return
	}
	if k.Group != "" {
		p.violation(at+".group", "is set together with finalizer",
			"remove one of them: contexts of a group do not name the object that is being deleted")
	}
	retry := p.hook.Settings.Retry.Override(k.Retry)
	switch {
	case k.AllowFailure:
		p.warn(at+".allowFailure", "counts a failed run as success: the finalizer is removed although the cleanup may be incomplete")
	case retry != nil && retry.Exhausted == hook.Drop:
		p.violation(at+".finalizer", "is set, but retry.exhausted is drop (in the binding or in settings.retry)",
			"set exhausted: park: a dropped Deleting leaves the object with its finalizer")
	}
	for i := range p.hook.Kubernetes {
		other := &p.hook.Kubernetes[i]
		if other.Finalizer == k.Finalizer && strings.EqualFold(other.Kind, k.Kind) &&
			(other.APIVersion == k.APIVersion || other.APIVersion == "" || k.APIVersion == "") {
			p.violation(at+".finalizer", fmt.Sprintf("%q is that of kubernetes[%d] (binding %q), too, for the same kind", k.Finalizer, i,
				other.Name),
				"give each binding its own finalizer")
		}
	}
}

func (p *parser) selectors(at string, c *kubernetesConfig, k *hook.Kubernetes) {
	k.Names = c.Names.names()
	p.exactNames(at+".nameSelector", k.Names, content.IsPathSegmentName)
	_, k.Labels = p.labelSelector(at+".labelSelector", c.Labels)
	k.Fields = p.fieldSelector(at+".fieldSelector", c.Fields, len(k.Names) > 0)
	if c.Namespace == nil {
		return
	}
	k.Namespaces.Names = c.Namespace.Names.names()
	p.exactNames(at+".namespace.nameSelector", k.Namespaces.Names, validation.IsDNS1123Label)
	if s, text := p.labelSelector(at+".namespace.labelSelector", c.Namespace.Labels); s != nil {
		if len(k.Namespaces.Names) > 0 {
			p.warn(at+".namespace.nameSelector", "is ignored because there is a labelSelector: keep one of them")
		}
		k.Namespaces = hook.Namespaces{Labels: text, ByLabels: true}
	}
}

// exactNames warns of patterns and other texts that match no object.
func (p *parser) exactNames(at string, names []string, check func(name string) []string) {
	for _, name := range names {
		if len(check(name)) > 0 || strings.ContainsAny(name, `*?^$|\ `) {
			p.warn(at+".matchNames", "%q matches no object: names are compared as a whole, without patterns; "+
				"select by labels, or leave the selector out for all", name)
		}
	}
}

// names returns the names in a selector, which may be nil.
func (c *namesConfig) names() []string {
	if c == nil {
		return nil
	}
	return unique(c.Names)
}

// unique sorts names and removes duplicates. It returns nil for none.
func unique(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// labelSelector checks a label selector as the API server does, and also returns its text form. It returns nil if there is none.
func (p *parser) labelSelector(at string, c *hook.LabelSelector) (*hook.LabelSelector, string) {
	if c == nil {
		return nil, ""
	}
	var all labels.Requirements
	add := func(at string, part hook.LabelSelector) {
		selector, err := metav1.LabelSelectorAsSelector(&part)
		if err != nil {
			p.violation(at, "is not a selector: "+err.Error(), "")
			return
		}
		requirements, _ := selector.Requirements()
		all = append(all, requirements...)
	}
	for _, k := range slices.Sorted(maps.Keys(c.MatchLabels)) {
		if isBoolean(k) {
			p.warn(at+".matchLabels."+k, "a key is %q: %s", k, quoteBooleans)
		}
		add(at+".matchLabels."+k, hook.LabelSelector{MatchLabels: map[string]string{k: c.MatchLabels[k]}})
	}
	for i := range c.MatchExpressions {
		c.MatchExpressions[i].Values = unique(c.MatchExpressions[i].Values)
		add(at+indexed(".matchExpressions", i), hook.LabelSelector{MatchExpressions: c.MatchExpressions[i : i+1]})
	}
	return c, labels.NewSelector().Add(all...).String()
}

func (p *parser) fieldSelector(at string, c *fieldsConfig, named bool) string {
	if c == nil || len(c.Expressions) == 0 {
		return ""
	}
	var terms []fields.Selector
	for i, e := range c.Expressions {
		if strings.HasPrefix(e.Operator, "!") || e.Operator == "NotEquals" {
			terms = append(terms, fields.OneTermNotEqualSelector(e.Field, e.Value))
		} else {
			terms = append(terms, fields.OneTermEqualSelector(e.Field, e.Value))
		}
		if named && e.Field == "metadata.name" {
			p.violation(at+indexed(".matchExpressions", i)+".field", "is metadata.name, but nameSelector is given too", "keep one of them")
		}
	}
	// equal selectors are equal texts
	slices.SortFunc(terms, func(a, b fields.Selector) int { return strings.Compare(a.String(), b.String()) })
	return fields.AndSelectors(terms...).String()
}
