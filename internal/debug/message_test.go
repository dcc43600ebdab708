package debug

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// The message of a result file follows how the run ended, on one line.
func TestMessageOfARun(t *testing.T) {
	now := time.Now()
	r := history.Run{ID: "7-1", Hook: "h", Started: now, Status: history.Succeeded, Exit: "exit status 0", Message: "2 of 3\nare ready"}
	e := Explanation{last: &r}
	for name, text := range map[string]string{"runs": runsText([]history.Run{r}, now), "why": e.text(now)} {
		if !strings.Contains(text, "exit status 0: 2 of 3 are ready") {
			t.Errorf("%s shows\n%s", name, text)
		}
	}
	if text := runText(&r); !strings.Contains(text, "message:  2 of 3 are ready\n") {
		t.Errorf("runs show shows\n%s", text)
	}
}
