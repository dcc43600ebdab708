package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// queue parses a queue: a name, or a mapping.
func (p *parser) queue(o *object) (string, hook.Lanes) {
	if v, _ := o.lookup("queue"); jq.TypeOf(v) != "object" {
		return queueName(o), hook.Lanes{}
	}
	q := o.object("queue")
	name := queueNameAt(q, "name")
	lanes := hook.Lanes{Key: p.queueKey(q, name), Concurrency: 1}
	if n := q.integer("concurrency"); n != nil {
		lanes.Concurrency = *n
		switch {
		case *n < 1 || *n > maxConcurrency:
			q.violation("concurrency", fmt.Sprintf("is %d", *n), fmt.Sprintf("use 1 to %d", maxConcurrency))
		case *n > 1 && !q.has("key"):
			q.violation("concurrency", fmt.Sprintf("is %d, but the queue has no key", *n),
				"set key: events with the same key stay in order, others run in parallel")
		}
	}
	q.close()
	if !lanes.Keyed() {
		lanes = hook.Lanes{}
	}
	return name, lanes
}

const maxConcurrency = 1000

func (p *parser) queueKey(q *object, queue string) hook.Key {
	key := hook.Key(q.text("key"))
	if v, ok := q.lookup("key"); !ok || jq.TypeOf(v) != "string" {
		return ""
	}
	if queue == hook.MainQueue {
		q.violation("key", "is set for the queue main, which cannot have one",
			"set name to another queue: main also orders the start of all hooks")
	}
	switch {
	case key == hook.ByObject || key == hook.ByNamespace:
	case !strings.HasPrefix(string(key), "."):
		hint := suggestion(string(key), []string{string(hook.ByObject), string(hook.ByNamespace)})
		if hint == "" {
			hint = `use object, namespace, or a jq expression that begins with a dot, such as .spec.customer`
		}
		q.violation("key", fmt.Sprintf("%q is not a key", key), hint)
	default:
		p.compiles(q, "key", string(key))
	}
	return key
}

// plainQueue parses the queue of a schedule, which has a name only.
func (p *parser) plainQueue(o *object) string {
	if v, _ := o.lookup("queue"); jq.TypeOf(v) != "object" {
		return queueName(o)
	}
	q := o.object("queue")
	for _, key := range []string{"key", "concurrency"} {
		if q.has(key) {
			q.violation(key, "is only for kubernetes bindings", "name the queue only: its kubernetes bindings declare key and concurrency")
		}
	}
	name := queueNameAt(q, "name")
	q.close()
	return name
}

// minRetryDelay bounds how often a failing hook runs.
const minRetryDelay = 100 * time.Millisecond

// retry parses a retry policy that overrides fields of another one, which may be nil.
func (p *parser) retry(parent *object, defaults *hook.Retry) *hook.Retry {
	o := parent.object("retry")
	if o == nil {
		return nil
	}
	if parent.fields["allowFailure"] == true {
		o.violation("", "is set together with allowFailure", "keep one of them: allowFailure: true is limit: 1, exhausted: drop")
	}
	before := len(p.violations)
	r := hook.Retry{MinDelay: o.retryDelay("minDelay"), MaxDelay: o.retryDelay("maxDelay"), Limit: o.integer("limit")}
	if r.Limit != nil && *r.Limit < 0 {
		o.violation("limit", fmt.Sprintf("is %d", *r.Limit), "use 1 or more, or 0 for no limit")
	}
	r.Exhausted = hook.Exhausted(o.oneOf("exhausted", string(hook.Park), string(hook.Drop)))
	o.close()
	all := defaults.Override(&r)
	if len(p.violations) == before && all.MinDelay != nil && all.MaxDelay != nil && *all.MinDelay > *all.MaxDelay {
		key, hint := "minDelay", "raise maxDelay or lower minDelay"
		if r.MinDelay == nil {
			key = "maxDelay"
		}
		if r.MinDelay == nil || r.MaxDelay == nil {
			hint += ": the other one is in settings.retry"
		}
		o.violation(key, fmt.Sprintf("makes minDelay %s longer than maxDelay %s", shortDuration(*all.MinDelay), shortDuration(*all.MaxDelay)),
			hint)
	}
	return &r
}

func (o *object) retryDelay(key string) *time.Duration {
	d := o.duration(key)
	if d != nil && *d < minRetryDelay {
		o.violation(key, "is "+shortDuration(*d), "use "+shortDuration(minRetryDelay)+" or more")
	}
	return d
}

// initialObjects parses how the existing objects are delivered.
func (p *parser) initialObjects(o *object, k *hook.Kubernetes) {
	if o.oneOf("initialObjects", "synchronization", "added") != "added" {
		return
	}
	if k.Initial == hook.InitialNone {
		o.violation("initialObjects", "is added, but executeHookOnSynchronization is false",
			"keep one of them: added delivers the existing objects, false does not")
	}
	if !k.Added {
		o.violation("initialObjects", "is added, but executeHookOnEvent has no Added", "add Added, or omit initialObjects")
	}
	k.Initial, k.WaitForSynchronization = hook.InitialEvents, false
}

// upstreamFields are the keys of kubernetes bindings that upstream has, too.
var upstreamFields = []string{
	"queue", "allowFailure", "apiVersion", "kind", "executeHookOnEvent", "executeHookOnSynchronization", "waitForSynchronization",
	"keepFullObjectsInMemory", "jqFilter", "nameSelector", "namespace", "labelSelector", "fieldSelector",
	"resynchronizationPeriod",
}

// newerFields rejects the other ones in a binding of version 0, which ignores unknown ones otherwise.
func newerFields(o *object) {
	for _, key := range KeysOf[kubernetesConfig]() {
		if v, ok := o.lookup(key); ok && (key == "queue" && jq.TypeOf(v) == "object" || !slices.Contains(upstreamFields, key)) {
			o.violation(key, "needs configVersion v1", `write "configVersion: v1", or remove it`)
		}
	}
}
