package debug

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// The message of a result file follows how the run ended, on one line.
func TestMessageOfARun(t *testing.T) {
	r := history.Run{ID: "7-1", Hook: "h", Started: time.Now(),
		Outcome: history.Outcome{Status: history.Succeeded, Exit: "exit status 0", Message: "2 of 3\nare ready"}}
	e := Explanation{last: &r}
	runs := listed(t, listOf("runs", 0, runCells), []history.Run{r})
	for name, text := range map[string]string{"runs": runs, "why": e.text(time.Now())} {
		if !strings.Contains(text, "exit status 0: 2 of 3 are ready") {
			t.Errorf("%s shows\n%s", name, text)
		}
	}
	if text := runText(&r); !strings.Contains(text, "message:  2 of 3 are ready\n") {
		t.Errorf("runs show shows\n%s", text)
	}
}

// The wait for own changes is a phase, and what was not waited for any longer is named.
func TestOwnChangesOfARun(t *testing.T) {
	for lacking, want := range map[string][2]string{
		"":                {"waited 12ms for its own changes (", "phases:   waiting 8ms, own changes 12ms, process "},
		"configmaps: a/b": {"waited 12ms for its own changes and began without one: configmaps: a/b (", "lacking:  configmaps: a/b\n"},
	} {
		h := history.New()
		h.Begin(history.Run{Task: "7", Attempt: 1, Hook: "h", Queue: "main", Waited: history.Duration(20 * time.Millisecond),
			OwnWrites: history.Duration(12 * time.Millisecond), Lacking: lacking}).End(history.Outcome{Status: history.Succeeded})
		r, _ := h.Run("7")
		if got := (&Explanation{last: &r}).text(time.Now()); !strings.Contains(got, want[0]) {
			t.Errorf("why shows\n%s", got)
		}
		if got := runText(&r); !strings.Contains(got, want[1]) {
			t.Errorf("runs show shows\n%s", got)
		}
	}
}

// What the client of a review got follows how the run ended: without it each denial looks like a success.
func TestVerdictOfARun(t *testing.T) {
	r := history.Run{ID: "7-1", Hook: "h", Started: time.Now(),
		Outcome: history.Outcome{Status: history.Succeeded, Exit: "exit status 0", Answer: "denied: not\ntoday"}}
	e := Explanation{last: &r}
	runs := listed(t, listOf("runs", 0, runCells), []history.Run{r})
	for name, text := range map[string]string{"runs": runs, "why": e.text(time.Now()), "tail": r.Summary()} {
		if !strings.Contains(text, "exit status 0, denied: not today") {
			t.Errorf("%s shows\n%s", name, text)
		}
	}
}

// listed are the rows of a list.
func listed(t *testing.T, l *List, items any) string {
	t.Helper()
	answer, err := marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	return rowsText(t, l, answer, false)
}
