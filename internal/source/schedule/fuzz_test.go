package schedule

import (
	"testing"
	"time"
)

// A crontab that is accepted has activations that come one after the other, and finding the next one takes no time
// worth speaking of.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/5 1-3,7 * * * *", "0 0 29 2 *", "0 0 31 2 *", "@hourly", "@every 90s", "@every 1ns", "@every -1s",
		"TZ=Europe/Berlin 30 2 * * *",
		"TZ=  @daily", "TZ=../etc/passwd * * * * *", "59 59 23 31 dec sat", "? ? ? ? ? ?", "1/2 * * * * *", "5-1 * * * *", "*/0 * * * *",
		"CRON_TZ=UTC @daily",
		"0-59/99999999999999999999 * * * *", "TZ=Australia/Lord_Howe */10 2 * 4,10 0", "+1 * * * *", "1,,2 * * * *",
	} {
		f.Add(text, int64(1_700_000_000))
	}
	f.Add("TZ=America/Sao_Paulo 0 0 * * *", int64(1_539_485_000))
	f.Fuzz(func(t *testing.T, text string, at int64) {
		s, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("the error says nothing")
			}
			return
		}
		at = ((at % 4e9) + 4e9) % 4e9 // till 2096
		started, last := time.Now(), time.Unix(at, 0)
		const steps = 10
		for range steps {
			next := s.Next(last)
			if next.IsZero() {
				break
			}
			if !next.After(last) {
				t.Fatalf("%q: %s comes after %s", text, next, last)
			}
			last = next
		}
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%q: %d activations took %s", text, steps, took)
		}
	})
}
