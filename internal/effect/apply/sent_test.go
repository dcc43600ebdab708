package apply

import (
	"fmt"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// TestSent keeps each kind of operations once, and counts what does not fit.
func TestSent(t *testing.T) {
	e := &Effects{sent: ledger{seen: map[[6]string]bool{}}}
	record := e.sent.of("hook.sh")
	patch := &effect.Patch{Operation: effect.MergePatch, Namespace: "shop", Name: "a", Subresource: "status"}
	rules := []kube.Rule{{Resource: "pods/status", Verbs: []string{"patch"}}, {Resource: "pods", Verbs: []string{"get"}}}
	record(patch, "shop", rules)
	record(patch, "shop", rules)
	e.sent.of("other.sh")(patch, "shop", rules[:1])
	all, dropped := e.Sent()
	if len(all) != 3 || dropped != 0 || all[0].Hook != "hook.sh" || all[0].Operation != "MergePatch" || all[0].Resource != "pods/status" ||
		all[1].Resource != "pods" || all[2].Hook != "other.sh" {
		t.Errorf("%+v, %d dropped", all, dropped)
	}
	for i := range maxSent + 7 {
		record(patch, fmt.Sprint("namespace-", i), rules[:1])
	}
	if all, dropped := e.Sent(); len(all) != maxSent || dropped != 10 {
		t.Errorf("%d kept, %d dropped", len(all), dropped)
	}
}
