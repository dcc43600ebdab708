package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
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

// The documented delays: 5 s, 6.x, 7.x, 9.x, 13.x, 21.x, 32.
func TestRetriesKeepTheirDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := NewSet(Options{Backoff: DefaultBackoff(5*time.Second, 32*time.Second)})
		stop, cancel := context.WithCancel(t.Context())
		var at []time.Time
		set.Add("main", "", funcTaskOf(func(context.Context) error {
			if at = append(at, time.Now()); len(at) == 9 {
				cancel()
			}
			return errors.New("fails")
		}))
		if err := set.Run(stop, t.Context()); err != nil {
			t.Fatal(err)
		}
		var whole []int
		for i := 1; i < len(at); i++ {
			delay := at[i].Sub(at[i-1])
			if delay%(100*time.Millisecond) != 0 {
				t.Errorf("delay %d is %s", i, delay)
			}
			whole = append(whole, int(delay.Seconds()))
		}
		if want := []int{5, 6, 7, 9, 13, 21, 32, 32}; !slices.Equal(whole, want) {
			t.Errorf("delays of %d s, want %d", whole, want)
		}
	})
}

// funcTask is a task that is always ready, absorbs nothing and does what the function does.
type funcTask struct {
	plain
	run func(context.Context) error
}

func funcTaskOf(run func(context.Context) error) *funcTask { return &funcTask{run: run} }

func (f *funcTask) Run(ctx context.Context) error { return f.run(ctx) }
func (*funcTask) String() string                  { return "func" }
