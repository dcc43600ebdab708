package process

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// The kernel ends a hook before the operator.
func TestOOMScore(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	score, err2 := strconv.Atoi(strings.TrimSpace(string(own)))
	if err != nil || err2 != nil {
		t.Skip("the kernel has no scores")
	}
	// It is set a moment after the start.
	o := execute(t, Options{}, "until n=$(cat /proc/$$/oom_score_adj) && [ $n != "+strconv.Itoa(score)+" ]; do :; done; echo $n", nil)
	if want := strconv.Itoa(min(score+500, 1000)); o.err != nil || lines(o.stdout) != want {
		t.Errorf("the score is %q (%v), want %s", o.stdout, o.err, want)
	}
}
