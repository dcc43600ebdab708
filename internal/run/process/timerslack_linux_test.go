package process

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shell-operator/shell-operator/internal/timerslack"
)

func TestTimerSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer timerslack.Set(time.Duration(own))
	timerslack.Set(80 * time.Microsecond)
	for _, test := range []struct {
		option time.Duration
		want   int
	}{{0, 80_000}, {70 * time.Microsecond, 70_000}} {
		got := execute(t, Options{TimerSlack: test.option}, "cat /proc/self/timerslack_ns", nil)
		if got.err != nil || lines(got.stdout) != fmt.Sprint(test.want) {
			t.Errorf("with the option %v: %q, error %v", test.option, got.stdout, got.err)
		}
	}
}
