package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// pairable are the faults that pairs are chosen from: all.
func pairable() []fault {
	patiently := func(w *world) {
		w.ignore = isOutput
		patient(w)
	}
	return slices.Concat(faults, acts, diskFaults(), leaderFaults(), []fault{
		// The last change waits for the run. 256 MiB, without a second fault, take a minute: see misbehave_test.go.
		{name: "hook-prints-64-MiB", prepare: patiently, touches: timeLimits, end: nothing, begin: func(w *world) { w.act("plain", "print 64") }},
		{name: "hook-writes-100-MiB-of-patches", prepare: patiently, touches: timeLimits, end: nothing, begin: func(w *world) {
			w.act("plain", "patch 100")
		}},
		{name: "hook-forks", begin: func(w *world) { w.act("plain", "fork 600") }, end: nothing},
	})
}

// leaderFaults are what happens to the leader of two operators.
func leaderFaults() (list []fault) {
	for _, p := range partings {
		var next func()
		list = append(list, fault{name: p.name, touches: aPairOfOperators,
			begin: func(w *world) { next = w.leave(p.signal, p.status) },
			end:   func(*world) { next() },
		})
	}
	return list
}

// clash reports whether two faults cannot happen at the same time.
func clash(a, b fault) bool {
	is := func(p, q part) bool { return a.touches == p && b.touches == q || a.touches == q && b.touches == p }
	return a.name == b.name || a.controlPlane && b.controlPlane || a.touches != 0 && a.touches == b.touches ||
		// Who starts an operator wants it to come up, and needs a disk for it.
		is(anOperator, aPairOfOperators) || is(anOperator, theDisk) || is(aPairOfOperators, theDisk)
}

// Two concurrent faults, chosen by the seed. The one that stops everything, if there is one, comes into the other; of
// two operators another can only lead when the other fault is over.
func TestPairs(t *testing.T) {
	cluster := clusterFor(t)
	random := rand.New(rand.NewPCG(seed(), 2))
	all := pairable()
	for i := range 30 {
		a, b := all[random.IntN(len(all))], all[random.IntN(len(all))]
		for clash(a, b) {
			b = all[random.IntN(len(all))]
		}
		if a.controlPlane || b.touches == aPairOfOperators {
			a, b = b, a
		}
		name := fmt.Sprintf("pair-%02d-%s+%s", i, a.name, b.name)
		t.Run(name, func(t *testing.T) {
			wanted(t, name)
			if a.touches == theDisk || b.touches == theDisk {
				if err := mayMount(t); err != nil {
					t.Skipf("needs a disk of its own, and may not mount one: %v", err)
				}
			}
			w := newWorld(t, cluster(), seed()*1000+uint64(500+i), true, hooksFor(a, b)...)
			for _, f := range []fault{a, b} {
				if f.prepare != nil {
					f.prepare(w)
				}
			}
			defer w.judge(name, time.Now())
			if a.touches == aPairOfOperators {
				w.beginWith(w.launchTwo)
			} else {
				w.begin()
			}
			w.lose(func() {
				a.begin(w)
				time.Sleep(w.length(a) / 2)
				b.begin(w)
				time.Sleep(w.length(b))
				b.end(w)
				time.Sleep(w.length(a) / 2)
				a.end(w)
			})
			if _, err := os.Stat(filepath.Join(w.dir, "plain.child")); err == nil {
				endChild(w)
			}
		})
	}
}
