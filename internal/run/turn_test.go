package run

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Each run is "objects parsing operations": what it changes, and how many seconds both steps take. All processes end at 0 s, in this order.
func TestTurns(t *testing.T) {
	for _, test := range []struct {
		name, runs string
		want       []time.Duration // when each one sends its operations
	}{
		{"one object", "a 0 5, a 0 1, a 0 1", []time.Duration{0, 5, 6}},
		{"different objects", "a 0 5, b 0 1, c 0 1", []time.Duration{0, 0, 0}},
		{"several objects", "ab 0 5, c 0 2, bc 0 1, d 0 1", []time.Duration{0, 0, 5, 0}},
		{"what an earlier run changes is not known yet", "a 3 1, b 0 1, a 0 1", []time.Duration{3, 3, 4}},
		{"an earlier run changes nothing", "- 3 1, a 0 1", []time.Duration{-1, 3}},
		{"of a nearer run", "a 0 9, ab 0 2, b 0 1", []time.Duration{0, 9, 11}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all turns
				h, other, began := &hook.Hook{}, &hook.Hook{}, time.Now()
				var runs sync.WaitGroup
				sent := make([]time.Duration, len(test.want))
				for i, text := range strings.Split(test.runs, ", ") {
					words := strings.Fields(text)
					turn := all.take(h)
					foreign := all.take(other)
					runs.Go(func() {
						defer turn.end()
						defer foreign.end()
						time.Sleep(seconds(words[1]))
						if words[0] == "-" {
							sent[i] = -1
							return
						}
						if err := turn.Wait(t.Context(), slices.Values(strings.Split(words[0], ""))); err != nil {
							t.Error(err)
						}
						sent[i] = time.Since(began)
						time.Sleep(seconds(words[2]))
					})
				}
				runs.Wait()
				for i, want := range test.want {
					if want > 0 {
						want *= time.Second
					}
					if sent[i] != want {
						t.Errorf("run %d sent its operations after %s, want %s", i, sent[i], want)
					}
				}
				if len(all.of) > 0 {
					t.Errorf("%d hooks are left", len(all.of))
				}
			})
		})
	}
}

func seconds(text string) time.Duration { return time.Duration(text[0]-'0') * time.Second }

// A run that is killed does not wait.
func TestTurnEndsWithItsContext(t *testing.T) {
	var all turns
	h := &hook.Hook{}
	first, second := all.take(h), all.take(h)
	defer first.end()
	defer second.end()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Wait(ctx, slices.Values([]string{"a"})); err == nil {
		t.Error("it did not fail")
	}
}
