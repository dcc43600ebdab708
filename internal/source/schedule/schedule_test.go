package schedule

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// testdata/crontabs.txt has crontabs, and when they are due after Saturday 2026-11-21, 10:00, in UTC, or what is wrong with them.
func TestParse(t *testing.T) {
	const file = "testdata/crontabs.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "→") {
			continue
		}
		crontab := line
		if !strings.Contains(line, "TZ=") {
			crontab = "TZ=UTC " + line
		}
		due := ""
		if s, err := Parse(crontab); err != nil {
			due = err.Error()
		} else if due = "never"; !s.Next(saturday).IsZero() {
			due = s.Next(saturday).UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&all, "%s\n→ %s\n\n", line, due)
	}
	golden.Compare(t, file, all.String())
	if _, err := Parse(""); err == nil {
		t.Error("an empty crontab is accepted")
	}
}

var saturday = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fired []string
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		c := New(Options{Fire: func(crontab string, _ time.Time) {
			fired = append(fired, crontab+" "+time.Since(start).String())
		}})
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()

		time.Sleep(10 * time.Second)
		c.Register("@every 2s")
		c.Register("@every 2s")
		c.Register("@every 3s")
		time.Sleep(7 * time.Second)
		c.Unregister(func(crontab string) bool { return crontab == "@every 2s" })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := strings.Join(fired, ", ")
		if want := "@every 2s 12s, @every 3s 13s, @every 2s 14s, @every 2s 16s, @every 3s 16s, @every 3s 19s"; got != want {
			t.Errorf("fired %s\n want %s", got, want)
		}
	})
}

func TestOneTickAfterAGap(t *testing.T) {
	c := New(Options{Fire: func(string, time.Time) {}})
	c.Register("* * * * * *")
	due, wait := c.due(wallNow().Add(time.Hour))
	if len(due) != 1 {
		t.Errorf("%d activations after an hour's gap, want 1", len(due))
	}
	if wait > time.Second {
		t.Errorf("next activation in %s", wait)
	}
}

// The clock jumps forward, back and a little back, while a Clock runs.
func TestClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now().UTC()
		var jumped atomic.Int64
		now := func() time.Time { return wallNow().UTC().Add(time.Duration(jumped.Load())) }
		var mu sync.Mutex
		var fired []string
		c := New(Options{Now: now, Fire: func(string, time.Time) {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, now().Sub(start).String())
		}})
		c.Register("TZ=UTC 0 */10 * * * *")
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		after := func(wait, jump time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(fired, " "); got != want {
				t.Errorf("fired at %q, want %q", got, want)
			}
			fired = nil
			jumped.Add(int64(jump))
		}
		after(11*time.Minute, 3*time.Hour, "10m0s")
		// The clock checks once a minute. Missed ticks are merged into one.
		after(2*time.Minute, 0, "3h12m0s")
		after(10*time.Minute+time.Second, -3*time.Hour, "3h20m0s")
		after(10*time.Minute, 0, "30m0s")
		// Now it is 33 minutes and a second after the start.
		after(7*time.Minute, -10*time.Second, "40m0s")
		after(time.Minute, 0, "")
		after(10*time.Minute, 0, "50m0s")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
