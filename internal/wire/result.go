package wire

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/schema"
)

// ResultRules are the keys of a run's result file.
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

const maxResult = 1 << 20

// resultSchema is the published one.
var resultSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Parse(docs.ResultSchema) })

// ParseResult parses the file at RUN_RESULT_PATH: one YAML or JSON mapping. It is checked strictly, because a typo would silently
// end a polling.
func ParseResult(text []byte, rules ResultRules) (effect.Result, error) {
	p := &parser{document: resultDocument}
	var r effect.Result
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return r, nil
	case len(text) > maxResult:
		p.violation("", fmt.Sprintf("it has more than %d bytes", maxResult), "write one short mapping")
	default:
		if fields, ok := p.decode(text); ok {
			p.tree = fields
			r = p.result(rules)
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
	return effect.Result{}, errors.New("the file that $RUN_RESULT_PATH names is not valid: " + strings.Join(problems, "; "))
}

func (p *parser) result(rules ResultRules) (r effect.Result) {
	s, err := resultSchema()
	if err != nil {
		p.violation("", err.Error(), "")
		return r
	}
	if p.structure(s, &r); len(p.violations) > 0 {
		return r
	}
	r.Message, r.GiveUp = cut(r.Message, effect.MaxMessage), cut(r.GiveUp, effect.MaxMessage)
	for i, q := range r.Requeue {
		if q.Name != "" && rules.Unlisted == "" && (rules.Contains == nil || !rules.Contains(q.Namespace, q.Name)) {
			p.violation(indexed("requeue", i), fmt.Sprintf("names %.600q, which is not in the contexts of the run",
				strings.TrimPrefix(q.Namespace+"/"+q.Name, "/")), "name an object of object or objects, with its namespace")
		}
	}
	for _, key := range []string{"requeueAfter", "requeue", "keepFinalizer", "retryAfter", "giveUp"} {
		requeues, unlisted := strings.HasPrefix(key, "requeue"), rules.Unlisted
		if key == "keepFinalizer" {
			requeues, unlisted = true, rules.UnlistedDeleting
		}
		switch _, has := p.tree[key]; {
		case !has:
		case rules.MessageOnly != "":
			p.violation(key, "is not possible in "+rules.MessageOnly, "write only message")
		case requeues && rules.Failed:
			p.violation(key, "needs exit status 0", "use retryAfter, or exit with 0")
		case !requeues && !rules.Failed:
			p.violation(key, "needs an exit status other than 0", "use requeueAfter, or exit with another status")
		case requeues && unlisted != "":
			p.violation(key, fmt.Sprintf("is not possible with executeHookOnSynchronization: false of binding %q", unlisted),
				"the Synchronization is the first poll after a restart: set it to true")
		}
	}
	if r.KeepFinalizer && !rules.Failed && rules.MessageOnly == "" && r.RequeueAfter.Duration == 0 {
		p.requeuesDeleting(&r, rules.Deleting)
	}
	return r
}

// requeuesDeleting checks that each object that keeps its finalizer is delivered again: it could never be deleted otherwise.
func (p *parser) requeuesDeleting(r *effect.Result, deleting iter.Seq2[string, string]) {
	const hint = "set requeueAfter, or list it in requeue"
	switch {
	case len(r.Requeue) == 0:
		p.violation("keepFinalizer", "needs requeueAfter or requeue", hint)
	case deleting != nil:
		for namespace, name := range deleting {
			if !slices.ContainsFunc(r.Requeue, func(q effect.Requeue) bool { return q.Namespace == namespace && q.Name == name }) {
				p.violation("keepFinalizer",
					fmt.Sprintf("would keep %.600q for ever, whose Deleting is not requeued", strings.TrimPrefix(namespace+"/"+name, "/")), hint)
				return
			}
		}
	}
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
