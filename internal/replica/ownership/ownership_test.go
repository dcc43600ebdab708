package ownership

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// settings of the model. Clocks run at one speed but for two settings, where the Lease duration is twice the deadline.
var settings = []setting{
	{name: "one division", of: [3]int{0, 0, 0}, next: []int{0}},
	{name: "two divisions", of: [3]int{0, 0, 1}, next: []int{0, 1}},
	{name: "leader election", of: [3]int{2, 2, 2}, next: []int{2}},
	{name: "divisions and a leader", of: [3]int{0, 1, 2}, next: []int{0, 1, 2}},
	{name: "a slow clock", of: [3]int{0, 0, 0}, next: []int{0}, speeds: [3]int{2, 1, 2}, duration: 8, renewal: 4},
	{name: "a slow clock, two divisions and a leader", of: [3]int{0, 1, 2}, next: []int{0, 1, 2}, speeds: [3]int{2, 1, 2}, duration: 8,
		renewal: 4},
	{name: "two divisions with equal names", of: [3]int{0, 0, 3}, next: []int{0, 3}},
	{name: "divisions with equal names and a leader", of: [3]int{0, 3, 2}, next: []int{0, 3, 2}},
}

// filled completes a setting.
func filled(s setting) *setting {
	if s.duration == 0 {
		s.speeds, s.duration, s.renewal = [3]int{1, 1, 1}, 6, 4
	}
	s.retry = 2
	return &s
}

// No promise is broken by random steps, and from wherever they end all shards are served in time.
func TestRandomSteps(t *testing.T) {
	steps := 2_000_000
	if test.Long() {
		steps = 500_000_000
	}
	for i, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			full := filled(s)
			sampled, longest := 0, 0
			// Two Lease durations, the requests, and the random part of a retry period, by the slowest clock.
			limit := 2*full.duration + 2*full.retry + 1
			broken := wander(full, random, nil, steps/len(settings), func(w *world) {
				sampled++
				longest = max(longest, w.recover(random, 10*limit))
			})
			if broken != "" {
				t.Error(broken)
			}
			if longest > limit {
				t.Errorf("all shards are served after %d ticks, at most %d are allowed", longest, limit)
			}
			t.Logf("%d states were sampled, after %d ticks all shards were served", sampled, longest)
		})
	}
}

// The model finds each of these faults; some after a scripted beginning, because random steps find them too rarely.
func TestFaults(t *testing.T) {
	ticks := func(w *walk, n int) {
		for range n {
			w.do(step{kind: tick})
		}
	}
	renewed := func(w *walk, p uint8) { // now
		w.until(w.serving(p), p)
		w.until(w.next(p, Renew), p)
		w.do(step{execute, p, 0}, step{deliver, p, 0})
	}
	// deletedUnder: process 0 serves a shard, and another client deletes its Lease.
	deletedUnder := func(w *walk) {
		renewed(w, 0)
		w.do(step{remove, 0, uint8(slices.Index(allLeases, w.procs[0].m.held.Name))})
	}
	for _, test := range []struct {
		fault   fault
		setting int
		begin   func(*walk)
	}{
		{noList, 3, nil},
		{divisionUnread, 6, nil},
		{listBefore, 3, nil},
		{bareDeletion, 3, func(w *walk) {
			// The request that deletes a Lease without a holder is late, and a process takes the Lease before.
			w.until(w.serving(1), 1)
			w.do(step{stop, 1, 0}, step{end, 1, 0})
			w.until(func() bool { return w.procs[1].m.phase == Ended }, 1)
			w.until(w.next(2, Delete), 2)
			w.do(step{fail, 2, 1}, step{kill, 2, elected}, step{kill, 1, 1})
			renewed(w, 1)
			w.do(step{arrive, 0, 0})
		}},
		{servedAtOnce, 0, nil},
		{identityOld, 0, func(w *walk) {
			deletedUnder(w)
			w.until(w.next(2, Create), 2)
			w.do(step{execute, 2, 0}, step{fail, 2, 0})
		}},
		{clearedUnserved, 0, func(w *walk) {
			deletedUnder(w)
			w.until(func() bool { return w.procs[2].m.phase == Checking }, 2)
			w.do(step{stop, 2, 0})
		}},
		{fenceFromAnswer, 2, func(w *walk) {
			w.until(w.next(0, Create), 0)
			w.do(step{execute, 0, 0})
			w.request(1)
			w.request(1)
			ticks(w, 5)
			w.do(step{deliver, 0, 0})
		}},
		{deadEarly, 0, nil},
		{noFence, 2, func(w *walk) {
			w.until(w.serving(0), 0) // and is stopped
			w.until(w.serving(1), 1)
		}},
		{releasedEarly, 0, func(w *walk) {
			w.until(w.serving(0), 0)
			w.do(step{stop, 0, 0})
		}},
		{identityTwice, 0, nil},
		{lateAnswerCounts, 3, func(w *walk) {
			w.do(step{kill, 0, elected}) // whose jitter is 0
			renewed(w, 1)
			w.request(0)
			w.request(0)
			ticks(w, 3)
			w.do(step{act, 1, 0})
			w.until(w.serving(0), 0)
			w.do(step{execute, 1, 0}, step{deliver, 1, 0})
		}},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			s := filled(settings[test.setting])
			s.fault = test.fault
			broken := wander(s, rand.New(rand.NewPCG(1, 1)), test.begin, 1_000_000, nil)
			if broken == "" {
				t.Error("the fault is not found")
			}
		})
	}
}
