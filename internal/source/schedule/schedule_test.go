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

// In Berlin clocks went forward on 2026-03-29 at 02:00 and back on 2026-10-25 at 03:00; in Cairo and Santiago they went forward
// at midnight, in Lord Howe by half an hour at 02:00; Apia skipped a day.
func TestClocksThatChange(t *testing.T) {
	for _, tt := range []struct{ name, crontab, from, to, want string }{
		{"skipped hour", "TZ=Europe/Berlin 30 2 * * *", "2026-03-28 12:00", "2026-03-30 12:00", "29 03:30 +0200, 30 02:30 +0200"},
		{
			"repeated hour", "TZ=Europe/Berlin 30 2 * * *", "2026-10-24 12:00", "2026-10-26 12:00",
			"25 02:30 +0200, 25 02:30 +0100, 26 02:30 +0100",
		}, {
			"every half hour, back", "TZ=Europe/Berlin */30 * * * *", "2026-10-25 01:45", "2026-10-25 03:10",
			"25 02:00 +0200, 25 02:30 +0200, 25 02:00 +0100, 25 02:30 +0100, 25 03:00 +0100",
		}, {
			"every half hour, forward", "TZ=Europe/Berlin */30 * * * *", "2026-03-29 01:15", "2026-03-29 03:40",
			"29 01:30 +0100, 29 03:00 +0200, 29 03:30 +0200",
		},
		{"day without midnight", "TZ=Africa/Cairo 0 3 * * 5", "2026-04-23 00:00", "2026-04-30 00:00", "24 03:00 +0300"},
		{"date without midnight", "TZ=Africa/Cairo 0 3 24 * *", "2026-04-23 00:00", "2026-05-01 00:00", "24 03:00 +0300"},
		{"skipped midnight", "TZ=America/Santiago 0 0 * * *", "2026-09-05 12:00", "2026-09-07 12:00", "06 01:00 -0300, 07 00:00 -0300"},
		{"skipped @daily", "TZ=America/Santiago @daily", "2026-09-05 12:00", "2026-09-07 12:00", "06 01:00 -0300, 07 00:00 -0300"},
		{"skipped half hour", "TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03 12:00", "2026-10-05 12:00", "04 02:45 +1100, 05 02:15 +1100"},
		{"skipped day", "TZ=Pacific/Apia 0 0 30 12 *", "2011-12-29 00:00", "2012-12-31 00:00", "31 00:00 +1400, 30 00:00 +1400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse(tt.crontab)
			if err != nil {
				t.Fatal(err)
			}
			zone, _, _ := strings.Cut(strings.TrimPrefix(tt.crontab, "TZ="), " ")
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			from, _ := time.ParseInLocation("2006-01-02 15:04", tt.from, location)
			to, _ := time.ParseInLocation("2006-01-02 15:04", tt.to, location)
			var got []string
			for at := s.Next(from); at.Before(to); at = s.Next(at) {
				got = append(got, at.Format("02 15:04 -0700"))
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("fires at %v, want %v", got, tt.want)
			}
		})
	}
}

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
