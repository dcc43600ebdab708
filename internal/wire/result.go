package wire

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// ResultRules are what the result file of a run can contain.
type ResultRules struct {
	// Failed reports an exit status other than 0.
	Failed bool
	// MessageOnly names the kind of run that accepts nothing but a message; empty means that all keys are accepted.
	MessageOnly string
	// Unlisted names a binding with executeHookOnSynchronization: false if all contexts are of such bindings: they cannot be requeued.
	// UnlistedDeleting names one that has a Deleting. Empty means none.
	Unlisted, UnlistedDeleting string
	// Contains reports whether the contexts that can be requeued have an object; nil means that they have none.
	Contains func(namespace, name string) bool
	// Deleting yields namespace and name of each object whose Deleting is in the contexts; nil means none.
	Deleting iter.Seq2[string, string]
}

// Bounds of the values in result files.
const (
	minRequeue    = time.Second
	maxRequeue    = 720 * time.Hour
	maxRetryAfter = 24 * time.Hour
	maxRequeues   = 1000
	maxResult     = 1 << 20
)

// ParseResult parses the file at RUN_RESULT_PATH: one YAML or JSON mapping. It is checked strictly, because a typo would silently
// end a polling. An error is a *FileError.
func ParseResult(text []byte, rules ResultRules) (effect.Result, error) {
	p := &parser{document: resultDocument}
	var r effect.Result
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return r, nil
	case len(text) > maxResult:
		p.violations = []Violation{{Problem: fmt.Sprintf("it has more than %d bytes", maxResult), Hint: "write one short mapping"}}
	default:
		if fields, ok := p.decode(text); ok {
			r = result(&object{p: p, fields: fields}, rules)
		}
	}
	for _, w := range p.warnings { // such as a duplicate key: what is meant is not certain
		p.violations = append(p.violations, Violation{Path: w.Path, Problem: w.Problem})
	}
	if len(p.violations) == 0 {
		return r, nil
	}
	problems := make([]string, len(p.violations))
	for i, v := range p.violations {
		problems[i] = v.String()
	}
	return effect.Result{}, &FileError{p.violations, "the file that $RUN_RESULT_PATH names is not valid: " + strings.Join(problems, "; ")}
}

func result(o *object, rules ResultRules) (r effect.Result) {
	r.Message = cut(o.text("message"), effect.MaxMessage)
	if after := o.durationBetween("requeueAfter", minRequeue, maxRequeue); after != nil {
		r.RequeueAfter = *after
	}
	r.RetryAfter = o.durationBetween("retryAfter", 0, maxRetryAfter)
	if r.GiveUp = cut(o.text("giveUp"), effect.MaxMessage); o.fields["giveUp"] == "" {
		o.violation("giveUp", "is empty", "write the reason")
	}
	r.Requeue = requeues(o, rules)
	r.KeepFinalizer = o.truth("keepFinalizer", false)
	o.close()
	for _, key := range []string{"requeueAfter", "requeue", "keepFinalizer", "retryAfter", "giveUp"} {
		requeues, unlisted := strings.HasPrefix(key, "requeue"), rules.Unlisted
		if key == "keepFinalizer" {
			requeues, unlisted = true, rules.UnlistedDeleting
		}
		switch {
		case !o.has(key):
		case rules.MessageOnly != "":
			o.violation(key, "is not possible in "+rules.MessageOnly, "write only message")
		case requeues && rules.Failed:
			o.violation(key, "needs exit status 0", "use retryAfter, or exit with 0")
		case !requeues && !rules.Failed:
			o.violation(key, "needs an exit status other than 0", "use requeueAfter, or exit with another status")
		case requeues && unlisted != "":
			o.violation(key, fmt.Sprintf("is not possible with executeHookOnSynchronization: false of binding %q", unlisted),
				"the Synchronization is the first poll after a restart: set it to true")
		}
	}
	if r.KeepFinalizer && !rules.Failed && rules.MessageOnly == "" {
		o.requeuesDeleting(&r, rules.Deleting)
	}
	return r
}

// requeuesDeleting checks that each object that keeps its finalizer is delivered again: it could never be deleted otherwise.
func (o *object) requeuesDeleting(r *effect.Result, deleting iter.Seq2[string, string]) {
	const hint = "set requeueAfter, or list it in requeue"
	switch {
	case r.RequeueAfter > 0 || o.has("requeueAfter"):
	case len(r.Requeue) == 0:
		o.violation("keepFinalizer", "needs requeueAfter or requeue", hint)
	case deleting != nil:
		for namespace, name := range deleting {
			if !slices.ContainsFunc(r.Requeue, func(q effect.Requeue) bool { return q.Namespace == namespace && q.Name == name }) {
				o.violation("keepFinalizer",
					fmt.Sprintf("would keep %.600q for ever, whose Deleting is not requeued", strings.TrimPrefix(namespace+"/"+name, "/")), hint)
				return
			}
		}
	}
}

func requeues(o *object, rules ResultRules) []effect.Requeue {
	list := o.objects("requeue", 0)
	if len(list) > maxRequeues {
		o.violation("requeue", fmt.Sprintf("has %d objects", len(list)),
			fmt.Sprintf("list at most %d, and use requeueAfter for the rest", maxRequeues))
		return nil
	}
	var all []effect.Requeue
	for _, item := range list {
		if item == nil {
			continue
		}
		r := effect.Requeue{Namespace: item.text("namespace"), Name: item.requiredText("name")}
		if after := item.durationBetween("after", minRequeue, maxRequeue); after != nil {
			r.After = *after
		} else if !item.has("after") {
			item.violation("after", "is required", `write a duration such as "5m"`)
		}
		if r.Name != "" && rules.Unlisted == "" && (rules.Contains == nil || !rules.Contains(r.Namespace, r.Name)) {
			item.violation("", fmt.Sprintf("names %.600q, which is not in the contexts of the run", strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")),
				"name an object of object or objects, with its namespace")
		}
		item.close()
		all = append(all, r)
	}
	return all
}

// durationBetween reads a duration and checks its bounds.
func (o *object) durationBetween(key string, least, most time.Duration) *time.Duration {
	d := o.duration(key)
	if d != nil && (*d < least || *d > most) {
		o.violation(key, "is "+shortDuration(*d), fmt.Sprintf("use %s to %s", shortDuration(least), shortDuration(most)))
		return nil
	}
	return d
}

// shortDuration leaves out the parts that are zero: "5m", not "5m0s".
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// cut shortens a text to a number of bytes without breaking a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
