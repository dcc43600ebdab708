package logonce

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forever Dedup
		minutely := Dedup{Every: time.Minute}
		for i, step := range []struct {
			d          *Dedup
			key, state string
			after      time.Duration
			suppressed int
			due        bool
		}{
			{&forever, "a", "refused", 0, 0, true},
			{&forever, "a", "refused", time.Hour, 0, false},
			{&forever, "a", "refused", 0, 0, false},
			{&forever, "b", "refused", 0, 0, true},
			{&forever, "a", "forbidden", 0, 2, true},
			{&forever, "a", "refused", 0, 0, true},
			{&minutely, "a", "refused", 0, 0, true},
			{&minutely, "a", "refused", 59 * time.Second, 0, false},
			{&minutely, "a", "refused", time.Second, 1, true},
		} {
			time.Sleep(step.after)
			if suppressed, due := step.d.Due(step.key, step.state); suppressed != step.suppressed || due != step.due {
				t.Errorf("step %d: %d suppressed, due %v", i+1, suppressed, due)
			}
		}
	})
}

func TestEnd(t *testing.T) {
	var d Dedup
	if d.End("a") {
		t.Error("a condition ends that never was")
	}
	d.Due("a", "refused")
	if !d.End("a") || d.End("a") {
		t.Error("a condition ends once")
	}
	if suppressed, due := d.Due("a", "refused"); suppressed != 0 || !due {
		t.Error("a condition that begins again is not due")
	}
}

func TestMemory(t *testing.T) {
	var d Dedup
	for i := range 10 * maxConditions {
		d.Due(fmt.Sprint(i), "refused")
	}
	if len(d.logged) > maxConditions {
		t.Errorf("%d conditions are kept", len(d.logged))
	}
}

// Of long texts, hashes are kept.
func TestLongTexts(t *testing.T) {
	var d Dedup
	long := strings.Repeat("x", 1<<20)
	for _, step := range []struct {
		key, state string
		due        bool
	}{{long, long, true}, {long, long, false}, {long + "y", long, true}, {long, long + "y", true}, {"a", "b", true}} {
		if _, due := d.Due(step.key, step.state); due != step.due {
			t.Errorf("%d, %d bytes: due is %t", len(step.key), len(step.state), due)
		}
	}
	for key, c := range d.logged {
		if len(key) > maxText || len(c.state) > maxText {
			t.Errorf("%d and %d bytes are kept", len(key), len(c.state))
		}
	}
	if !d.End(long) || d.End(long) {
		t.Error("the condition is not forgotten")
	}
}
