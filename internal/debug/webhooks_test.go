package debug

import (
	"errors"
	"testing"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

// A webhook that is not registered blocks its hook in why, as it does in status, and no other hook.
func TestUnregisteredWebhookBlocks(t *testing.T) {
	h := &hook.Hook{Name: "policy.sh", Validating: []hook.Admission{{Binding: hook.Binding{Name: "a.example.com"}}}}
	other := &hook.Hook{Name: "other.sh"}
	hooks := &Hooks{Active: func() []*hook.Hook { return []*hook.Hook{h, other} }}
	topic := WebhooksTopic(hooks, func() []webhook.Unregistered {
		return []webhook.Unregistered{{Kind: hook.OnValidating, Subject: "validating webhooks", Hooks: []string{"policy.sh"},
			Err: errors.New("no permission")}}
	}, history.New())
	api := New(Options{Hooks: hooks})
	api.Show([]Topic{topic})
	runs := Reason{Kind: InReviews, Text: "it runs for each request of the API server"}
	e := explain(h.Name, append([]Reason{runs}, api.deciding(h, &Moment{}, api.Troubles())...), nil)
	if e.Verdict != notRegistered || e.Reasons[0].Text != "validating webhooks: policy.sh: webhooks are not registered: no permission" {
		t.Errorf("%s: %+v", e.Verdict, e.Reasons)
	}
	if got := api.deciding(other, &Moment{}, api.Troubles()); len(got) > 0 {
		t.Errorf("another hook: %+v", got)
	}
}

// A binding is failing when its last three reviews have failed, until one succeeds or the hooks are loaded again: + succeeds, - fails.
func TestReviews(t *testing.T) {
	h := &hook.Hook{Name: "a.sh", Validating: []hook.Admission{{Binding: hook.Binding{Name: "b"}, FailurePolicy: "Ignore"},
		{Binding: hook.Binding{Name: "other"}}}}
	for script, want := range map[string]string{"": "", "+": "", "--": "",
		"---":    "its last 3 reviews have failed, the API server admits such requests",
		"+-----": "its last 5 reviews have failed, the API server admits such requests", "---+": "", "---+--": ""} {
		runs := history.New()
		for _, one := range script {
			status := map[rune]history.Status{'+': history.Succeeded, '-': history.Failed}[one]
			runs.Begin(history.Run{Hook: "a.sh", Binding: "b"}).End(history.Outcome{Status: status})
		}
		got := ""
		for _, trouble := range failingReviews(h, runs) {
			got += trouble.Problem
		}
		if got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
		if runs.ForgetReviews(); len(failingReviews(h, runs)) > 0 {
			t.Errorf("%q: it is not forgotten", script)
		}
	}
}
