package debug

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

// WebhooksTopic reports webhooks that are not registered, and bindings whose reviews keep failing.
func WebhooksTopic(hooks *Hooks, unregistered func() []webhook.Unregistered, runs *history.History) Topic {
	return Topic{Troubles: func() (all []Trouble) {
		for _, u := range unregistered() {
			t := Trouble{Kind: InRegistration, Hooks: u.Hooks, Type: u.Kind, Subject: u.Subject,
				Problem: strings.TrimPrefix(fmt.Sprintf("%s: webhooks are not registered: %v", strings.Join(u.Hooks, ", "), u.Err), ": ")}
			if u.Left != "" {
				t.Problem = fmt.Sprintf("%s: %v", u.Left, u.Err)
			}
			all = append(all, t)
		}
		for _, h := range hooks.Active() {
			all = append(all, failingReviews(h, runs)...)
		}
		return all
	}}
}

// answersInstead describes how the API server answers a request whose review has failed.
func answersInstead(h *hook.Hook, a hook.Address) string {
	does := map[string]string{"Ignore": "admits such requests", "Fail": "rejects such requests",
		"": "answers by --validating-webhook-failure-policy", "convert": "cannot convert the objects"}
	policy := "convert"
	switch a.Kind {
	case hook.OnValidating:
		policy = h.Validating[a.Index].FailurePolicy
	case hook.OnMutating:
		policy = h.Mutating[a.Index].FailurePolicy
	}
	return "the API server " + does[policy]
}

// reviews reports whether bindings of a type answer the API server.
func reviews(k hook.Kind) bool {
	return k == hook.OnValidating || k == hook.OnMutating || k == hook.OnConversion
}

// manyInRow is how many reviews in a row fail until the binding is failing. An alert of metrics has the rate.
const manyInRow = 3

func failingReviews(h *hook.Hook, runs *history.History) (all []Trouble) {
	for a, b := range h.Bindings() {
		if !reviews(a.Kind) {
			continue
		}
		subject := inHook(h.Name, b.Name)
		if a.Kind == hook.OnConversion {
			subject += " (" + h.Conversions[a.Index].CRDName + ")"
		}
		if failed := runs.FailedReviews(h.Name, b.Name); failed >= manyInRow {
			t := Trouble{Kind: InReviews, Hooks: []string{h.Name}, Type: a.Kind, Binding: b.Name, Subject: subject,
				Problem: fmt.Sprintf("its last %d reviews have failed, %s", failed, answersInstead(h, a)),
				Hint:    "shell-operator runs " + h.Name + " --failed"}
			for _, r := range slices.Backward(runs.Runs(h.Name)) {
				if r.Binding == b.Name && r.Queue == "" && r.Status.Bad() {
					t.cause, t.object = r.Cause, strings.Join(r.Why[:min(1, len(r.Why))], "")
				}
			}
			all = append(all, t)
		}
	}
	return all
}
