package debug

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogLevel(t *testing.T) {
	type step struct {
		set      string // empty: only wait
		duration time.Duration
		wait     time.Duration
		wrong    bool
		want     string // the value that counts after it
		passing  bool
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"for good", []step{{set: "warn", wait: 24 * time.Hour, want: "warn"}}},
		{"for a while", []step{{set: "warn", duration: time.Minute, wait: 59 * time.Second, want: "warn", passing: true},
			{wait: 2 * time.Second, want: "info"}}},
		{"debug always passes", []step{{set: "debug", wait: 29 * time.Minute, want: "debug", passing: true},
			{wait: 2 * time.Minute, want: "info"}}},
		{"debug for longer", []step{{set: "DEBUG", duration: time.Hour, wait: 59 * time.Minute, want: "debug", passing: true},
			{wait: 2 * time.Minute, want: "info"}}},
		{"back to the last permanent value",
			[]step{{set: "error", want: "error"}, {set: "warn", duration: time.Minute, wait: 2 * time.Minute, want: "error"}}},
		{"a permanent value ends a passing one", []step{{set: "warn", duration: time.Minute, want: "warn", passing: true},
			{set: "error", wait: time.Hour, want: "error"}}},
		{"a new term replaces the old one", []step{{set: "warn", duration: time.Minute, wait: 30 * time.Second, want: "warn", passing: true},
			{set: "error", duration: time.Minute, wait: 45 * time.Second, want: "error", passing: true}, {wait: time.Minute, want: "info"}}},
		{"a wrong value changes nothing", []step{{set: "warn", duration: time.Minute, want: "warn", passing: true},
			{set: "loud", wrong: true, want: "warn", passing: true}, {wait: time.Hour, want: "info"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLogLevel(&slog.LevelVar{}, slog.New(slog.DiscardHandler))
				defer l.Close()
				for i, s := range test.steps {
					if s.set != "" {
						if err := l.Set(s.set, s.duration); (err != nil) != s.wrong {
							t.Fatalf("step %d: %v", i, err)
						}
					}
					time.Sleep(s.wait)
					synctest.Wait()
					if d := l.dump(); d.Value != s.want || (d.ExpireAt != "") != s.passing {
						t.Errorf("step %d: shown %+v", i, d)
					}
				}
			})
		})
	}
}
