package app

import (
	"errors"
	"testing"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/run"
)

// The reason to give up is in the list of runs, beside the message of the hook.
func TestReasonToGiveUpInRuns(t *testing.T) {
	for _, test := range []struct {
		result effect.Result
		want   string
	}{
		{effect.Result{GiveUp: "no such shop"}, "the hook gave up: no such shop"},
		{effect.Result{GiveUp: "no such shop", Message: "3 of 4 orders"}, "3 of 4 orders; the hook gave up: no such shop"},
		{effect.Result{Message: "3 of 4 orders"}, "3 of 4 orders"},
	} {
		h := history.New()
		report := run.Report{Result: test.result, Err: errors.New("exit status 1")}
		h.Begin(history.Run{Task: "1", Hook: "h", Attempt: 1}).End(outcomeOf(&report))
		if got := h.Runs("h")[0].Message; got != test.want {
			t.Errorf("message %q, want %q", got, test.want)
		}
	}
}
