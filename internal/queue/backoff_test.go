package queue

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		name              string
		shortest, longest time.Duration
		random            time.Duration
		want              []time.Duration
	}{
		{"no luck", 5 * s, 32 * s, 0, []time.Duration{5 * s, 6 * s, 7 * s, 9 * s, 13 * s, 21 * s, 32 * s, 32 * s}},
		{"random part is cut", 5 * s, 32 * s, 999 * ms, []time.Duration{5 * s, 6900 * ms, 7900 * ms, 9900 * ms, 13900 * ms, 21900 * ms, 32 * s}},
		{"never above the longest", 5 * s, 8 * s, 500 * ms, []time.Duration{5 * s, 6500 * ms, 7500 * ms, 8 * s, 8 * s, 8 * s, 8 * s}},
		{"scaled up", 10 * s, 64 * s, 0, []time.Duration{10 * s, 12 * s, 14 * s, 18 * s, 26 * s, 42 * s, 64 * s}},
		{"scaled down", 500 * ms, 2 * s, 0, []time.Duration{500 * ms, 600 * ms, 700 * ms, 900 * ms, 1300 * ms, 2 * s, 2 * s}},
		{"all equal", 5 * s, 5 * s, 999 * ms, []time.Duration{5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s}},
	} {
		delay := backoff(test.shortest, test.longest, func() time.Duration { return test.random })
		for failures, want := range test.want {
			if got := delay(failures); got != want {
				t.Errorf("%s: after %d failures %s, want %s", test.name, failures, got, want)
			}
		}
	}
}
