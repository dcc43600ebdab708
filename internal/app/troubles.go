package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/health"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// Troubles are those of the API server, the Lease, the spool, the registrations and the reviews.
func (i *insight) Troubles() (all []debug.Trouble) {
	op := i.op
	if !i.ready.Load() {
		return nil
	}
	if text := op.requests.Unanswered(); text != "" {
		all = append(all, debug.Trouble{Kind: debug.InAPI, Subject: "the API server", Problem: text})
	}
	if op.election != nil {
		if text := op.election.Problem(); text != "" {
			all = append(all, debug.Trouble{Kind: debug.InLease, Subject: "the Lease", Problem: text})
		}
	}
	if text := op.searchProblem.Load(); text != nil {
		all = append(all, debug.Trouble{Kind: debug.InFinalizer, Subject: "the search for finalizers and sets without a hook", Problem: *text})
	}
	if others := op.finalizers.Alive(); len(others) > 0 {
		all = append(all, debug.SharedInstance(op.finalizers.Instance(), others))
	}
	if op.spool.Full() {
		all = append(all, debug.Trouble{Kind: debug.InSpool, Subject: "the spool",
			Problem: fmt.Sprintf("waiting events take %d MiB on the disk, more than --spool-limit: a Modified event replaces the one of its object that waits", op.spool.OnDisk()>>20),
			Hint:    "shell-operator queue list shows where events wait"})
	}
	for _, u := range op.servers.Unregistered() {
		t := debug.Trouble{Kind: debug.InRegistration, Hooks: u.Hooks, Type: u.Kind, Subject: u.Subject,
			Problem: strings.TrimPrefix(fmt.Sprintf("%s: webhooks are not registered: %v", strings.Join(u.Hooks, ", "), u.Err), ": ")}
		if u.Left {
			t.Problem = fmt.Sprintf("it has webhooks that no hook has any more, and with failure policy Fail they block requests: %v", u.Err)
		}
		all = append(all, t)
	}
	return append(all, i.failingReviews()...)
}

// failingReviews are the webhook bindings whose reviews keep failing.
func (i *insight) failingReviews() (all []debug.Trouble) {
	for _, h := range i.op.life.Hooks() {
		for a, b := range h.Bindings() {
			if a.Kind != hook.OnValidating && a.Kind != hook.OnMutating && a.Kind != hook.OnConversion {
				continue
			}
			of, subject := health.Reviewed{Hook: h.Name, Binding: b.Name}, fmt.Sprintf("%s, binding %q", h.Name, b.Name)
			if a.Kind == hook.OnConversion {
				of = health.Reviewed{Binding: h.Conversions[a.Index].CRDName}
			}
			failed, reviews := i.op.reviews.Failing(of)
			if failed == 0 {
				continue
			}
			t := debug.Trouble{Kind: debug.InReviews, Hooks: []string{h.Name}, Type: a.Kind, Binding: b.Name, Subject: subject,
				Problem: fmt.Sprintf("%d of its last %d reviews have failed", failed, reviews), Hint: "shell-operator runs " + h.Name + " --failed"}
			if a.Kind == hook.OnConversion {
				t.Subject += " (" + of.Binding + ")"
			}
			all = append(all, t)
		}
	}
	return all
}

// NotReady is why requests are not answered.
func (i *insight) NotReady() string {
	if _, err := i.op.health.Ready(); err != nil {
		return err.Error()
	}
	return ""
}

// readiness is the answer of /readyz: its notes do not affect readiness. What keeps bindings of a hook that waits from being enabled is in the note
// about that hook.
func (i *insight) readiness() (notes []string, err error) {
	notes, err = i.op.health.Ready()
	if !i.ready.Load() {
		return notes, err
	}
	waiting := map[string]bool{}
	for _, h := range i.op.life.Hooks() {
		waiting[h.Name] = i.op.health.Waiting(h) != ""
	}
	for _, t := range debug.Troubles(i) {
		if t.Kind == debug.InWatch && slices.ContainsFunc(t.Hooks, func(name string) bool { return waiting[name] }) {
			continue
		}
		notes = append(notes, t.Note())
	}
	return notes, err
}

// troubleCounts counts the troubles for a scrape.
func (i *insight) troubleCounts() (all []telemetry.TroubleCount) {
	if !i.ready.Load() {
		return nil
	}
	counts := map[telemetry.TroubleCount]int{}
	for _, t := range debug.Troubles(i) {
		hooks := t.Hooks
		if len(hooks) == 0 {
			hooks = []string{""}
		}
		for _, name := range hooks {
			counts[telemetry.TroubleCount{Kind: string(t.Kind), Hook: name}]++
		}
	}
	for c, n := range counts {
		c.Troubles = n
		all = append(all, c)
	}
	return all
}

// reviewMeter counts reviews, and remembers which bindings give no verdict.
type reviewMeter struct {
	*telemetry.Metrics
	op *operator
}

func (m reviewMeter) AdmissionReviewed(hook, binding, result string, took time.Duration) {
	m.op.reviews.Add(health.Reviewed{Hook: hook, Binding: binding}, result == admission.ResultFailed)
	m.Metrics.AdmissionReviewed(hook, binding, result, took)
}

func (m reviewMeter) ConversionReviewed(crd, result string, took time.Duration) {
	m.op.reviews.Add(health.Reviewed{Binding: crd}, result == conversion.ResultFailed)
	m.Metrics.ConversionReviewed(crd, result, took)
}
