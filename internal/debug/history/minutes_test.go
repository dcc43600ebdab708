package history

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// TestMinutesAgainstModel compares the rings with a list of all runs.
func TestMinutesAgainstModel(t *testing.T) {
	type ended struct {
		hook   string
		minute int64
		failed bool
	}
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			h := New()
			var all []ended
			for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
				time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 1, 20, 59, 60, 61, 600, 3599, 3600, 7200}).Draw(rt, "seconds")) * time.Second)
				hook := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "hook")
				status := rapid.SampledFrom([]Status{Succeeded, Failed, Allowed, Interrupted}).Draw(rt, "status")
				one(h, hook, i, status)
				all = append(all, ended{hook, minuteOf(time.Now()), status.Bad()})
				now, got := minuteOf(time.Now()), h.Minutes()
				for _, name := range []string{"a", "b", "c"} {
					var want [2][shownMinutes]uint32
					any := false
					for _, e := range all {
						if age := now - e.minute; e.hook == name && age < shownMinutes {
							any = true
							want[0][shownMinutes-1-age]++
							if e.failed {
								want[1][shownMinutes-1-age]++
							}
						}
					}
					m := got[name]
					if (m != nil) != any {
						t.Fatalf("hook %s: %v, want any: %v", name, m, any)
					}
					for i := range shownMinutes {
						if any && (m.Runs[i] != want[0][i] || m.Failures[i] != want[1][i]) {
							t.Fatalf("hook %s: %v and %v, want %v", name, m.Runs, m.Failures, want)
						}
					}
				}
			}
		})
	})
}

// A hook takes less than 1 KiB, and a run allocates nothing for it.
func TestMinutesCost(t *testing.T) {
	if size := unsafe.Sizeof(tally{}); size > 1<<10 {
		t.Errorf("a hook takes %d bytes", size)
	}
	h := New()
	now := time.Now()
	h.tally("a", now)
	if n := testing.AllocsPerRun(100, func() { h.tally("a", now).count(now, true) }); n > 0 {
		t.Errorf("a run allocates %v times", n)
	}
}

// The clock is set back and forth: nothing is counted twice, and the latest minutes stay.
func TestMinutesOfAnotherClock(t *testing.T) {
	var c tally
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c.count(noon, false)
	c.count(noon.Add(-2*time.Hour), true)
	c.count(noon.Add(time.Minute), false)
	m, _ := c.minutes(noon.Add(-time.Hour))
	if runs, failures := m.Sum(); runs != 3 || failures != 1 || m.Runs[59] != 1 || m.Runs[58] != 2 {
		t.Errorf("%d runs, %d failures: %v", runs, failures, m.Runs)
	}
	if _, any := c.minutes(noon.Add(61 * time.Minute)); any {
		t.Error("runs of an hour ago are there")
	}
}

// The minutes of hooks that are gone are dropped.
func TestMinutesOfGoneHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New()
		h.bytes = 0
		one(h, "busy", 1, Succeeded)
		time.Sleep(2 * time.Hour)
		one(h, "other", 10, Succeeded)
		one(h, "another", 11, Succeeded)
		if len(h.tallies) != 2 {
			t.Errorf("%d hooks are counted", len(h.tallies))
		}
	})
}
