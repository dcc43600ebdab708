package patch

import (
	"fmt"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// TestSent keeps each kind of operations once, and counts what does not fit.
func TestSent(t *testing.T) {
	a := New(Options{})
	rules := []kube.Rule{{Resource: "pods/status", Verbs: []string{"patch"}}, {Resource: "pods", Verbs: []string{"get"}}}
	a.sent.note("hook.sh", effect.MergePatch, "shop", rules...)
	a.sent.note("hook.sh", effect.MergePatch, "shop", rules...)
	a.sent.note("other.sh", effect.MergePatch, "shop", rules[0])
	all, dropped := a.Sent()
	if len(all) != 3 || dropped != 0 || all[0].Hook != "hook.sh" || all[0].Operation != "MergePatch" || all[0].Resource != "pods/status" ||
		all[1].Resource != "pods" || all[2].Hook != "other.sh" {
		t.Errorf("%+v, %d dropped", all, dropped)
	}
	for i := range maxSent + 7 {
		a.sent.note("hook.sh", effect.MergePatch, fmt.Sprint("namespace-", i), rules[0])
	}
	if all, dropped := a.Sent(); len(all) != maxSent || dropped != 10 {
		t.Errorf("%d kept, %d dropped", len(all), dropped)
	}
}
