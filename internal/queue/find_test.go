package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// found are the keys of the lanes that Look shows.
func found(set *Set, text string, limit int) (keys []string, matching, all int) {
	set.Look("q", text, limit, func(s State, lanes []Lane) {
		for _, l := range lanes {
			keys = append(keys, l.Key)
		}
		matching, all = s.Matching, s.Lanes
	})
	return keys, matching, all
}

// TestFindAgainstModel compares the lanes that Look shows with a sort of all of them.
func TestFindAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			delay := time.Minute
			set := NewSet(Options{Backoff: func(int) time.Duration { delay += time.Second; return delay }})
			set.Keep(map[string]Shape{"q": {Keyed: true, Concurrency: rapid.IntRange(1, 4).Draw(rt, "concurrency")}})
			stop, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = set.Run(stop, stop) })
			for i := range rapid.IntRange(0, 40).Draw(rt, "tasks") {
				task := waiting()
				if rapid.IntRange(0, 9).Draw(rt, "fails") > 0 {
					task = failing()
				}
				set.Add("q", fmt.Sprintf("%s/o-%d", rapid.SampledFrom([]string{"eu", "us"}).Draw(rt, "where"), i%20), task)
				synctest.Wait()
			}
			synctest.Wait()
			var all []Lane
			set.Look("q", "", -1, func(_ State, lanes []Lane) { all = lanes })
			limit := rapid.IntRange(1, 30).Draw(rt, "limit")
			for _, text := range []string{"", "eu", "o-1", "nowhere"} {
				want := slices.DeleteFunc(slices.Clone(all), func(l Lane) bool { return !strings.Contains(l.Key, text) })
				order := func(l Lane) int {
					switch {
					case text == "" && l.Phase == Sleeping, text != "" && l.Failures > 0:
						return 0
					case text == "" && l.Phase == Running:
						return 1
					}
					return 2
				}
				slices.SortStableFunc(want, func(a, b Lane) int {
					if c := cmp.Compare(order(a), order(b)); c != 0 {
						return c
					}
					if text != "" {
						return cmp.Compare(a.Key, b.Key)
					}
					if a.Phase == Running {
						return cmp.Compare(len(b.lane.failed), len(a.lane.failed))
					}
					return 0
				})
				var keys []string
				for _, l := range want[:min(limit, len(want))] {
					keys = append(keys, l.Key)
				}
				if got, matching, n := found(set, text, limit); !slices.Equal(got, keys) || matching != len(want) || len(all) > 0 && n != len(all) {
					t.Errorf("%q: found %v of %d in %d lanes, want %v of %d in %d", text, got, matching, n, keys, len(want), len(all))
				}
			}
			cancel()
			running.Wait()
		})
	})
}
