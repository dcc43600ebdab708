// Package adversary disturbs an operator at each place where that may matter: it kills the process between two writes, hides states, lets
// watches lag behind reads, and refuses writes.
//
// A workload, a file of testdata, has hooks and a script of changes. It runs undisturbed first: the writes of the operator, and the states
// in which it came to rest, are the reference. Then each plan disturbs one place of that reference, and has to reach the same states.
// docs/explanation/failures.md has the patterns, and what they have found.
//
// `make adversary` runs one plan of each class, and others by SEED, within BUDGET; CASE=name runs those whose names have that.
// `go test` runs a choice. ADVERSARY_PROGRAM names another program that speaks the protocol of hooks.
package adversary

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

var (
	// all selects all plans.
	all = os.Getenv("ADVERSARY") != ""
	// one selects the plans whose names contain it: web-app/ for a workload, /F/ for a pattern.
	one = os.Getenv("CASE")
	// program is another one than the operator of this tree.
	program = os.Getenv("ADVERSARY_PROGRAM")
)

// settings are the seed, and the time in which plans begin.
func settings(t *testing.T) (seed uint64, budget time.Duration) {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err == nil {
		budget, err = time.ParseDuration(cmp.Or(os.Getenv("BUDGET"), "35m"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return seed, budget
}

func TestAdversary(t *testing.T) {
	cluster := testenv.Shared(t)
	began := time.Now()
	seed, limit := settings(t)
	var mu sync.Mutex
	var plans []*plan
	t.Run("references", func(t *testing.T) {
		for _, load := range loadWorkloads(t) {
			if !wanted(load) {
				continue
			}
			t.Run(load.name, func(t *testing.T) {
				t.Parallel()
				r := makeReference(t, load, cluster)
				mu.Lock()
				defer mu.Unlock()
				plans = append(append(plans, r.plans()...), chains(t, load)...)
			})
		}
	})
	if t.Failed() {
		return
	}
	slices.SortFunc(plans, func(a, b *plan) int { return strings.Compare(a.name, b.name) })
	plans = slices.DeleteFunc(plans, func(p *plan) bool { return !selected(p) })
	plans, distinct := choose(plans, seed)
	report := &report{plans: plans, distinct: distinct, ran: map[*plan]string{}}
	waiting := slices.Clone(plans)
	// next returns the first plan that waits. (t.Parallel has no order.)
	next := func() (p *plan) {
		mu.Lock()
		defer mu.Unlock()
		if len(waiting) > 0 && time.Since(began) <= limit {
			p, waiting = waiting[0], waiting[1:]
		}
		return p
	}
	t.Run("plans", func(t *testing.T) {
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for p := next(); p != nil; p = next() {
					t.Run(p.name, func(t *testing.T) { report.add(p, p.run(t, cluster)) })
				}
			})
		}
		workers.Wait()
	})
	report.print(seed)
	for _, name := range short {
		if !all && one == "" && program == "" && !slices.ContainsFunc(plans, func(p *plan) bool { return p.name == name }) {
			t.Errorf("there is no plan %s", name)
		}
	}
}

// wanted skips the workloads that no selected plan has.
func wanted(load *workload) bool {
	if program != "" && !load.Plain {
		return false
	}
	if one != "" {
		named, _, _ := strings.Cut(one, "/")
		return named == load.name || named == ""
	}
	return all || slices.ContainsFunc(short, func(name string) bool { return strings.HasPrefix(name, load.name+"/") })
}

// short are the plans of make test-cluster.
var short = []string{
	"web-app/A/kill-before/patch,configmaps,NS/shell-operator-app-of-first,1",
	"web-app/B/9,patch,webapps",
	"web-app/C/restart/delete,services,NS/first,1",
	"web-app/E/port,0",
	"web-app/F/429-403/delete,services,NS/first,1",
}

func selected(p *plan) bool {
	switch {
	case program != "" && !slices.Contains([]string{"none", "A", "B", "F"}, p.pattern):
		return false
	case one != "":
		return strings.Contains(p.name, one)
	case all:
		return true
	}
	return slices.Contains(short, p.name)
}

func makeReference(t *testing.T, load *workload, cluster *testenv.Cluster) *reference {
	t.Helper()
	w := newWorld(t, load, cluster, nil)
	defer w.stop()
	w.play()
	return &reference{load: load, writes: w.last(1 << 20), states: w.made, resources: w.resources()}
}

// run is empty if the disturbance has happened, else the reason.
func (p *plan) run(t *testing.T, cluster *testenv.Cluster) string {
	t.Helper()
	if p.fresh != nil {
		load := p.load
		t.Run("fresh", func(t *testing.T) { p.reference = makeReference(t, p.fresh, cluster) })
		p.load = load
	}
	d := p.disturbance()
	w := newWorld(t, p.load, cluster, d)
	w.reference = p.reference
	defer w.stop()
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with: make adversary CASE='%s'", p.name)
			for _, one := range w.last(1 << 20) {
				t.Logf("%d %s %d %s", one.settled, one.place, one.status, one.effect)
			}
		}
	}()
	w.play()
	if t.Failed() {
		return ""
	}
	missed := d.missed()
	if missed == "" {
		p.check(w)
		w.checkContexts()
	}
	return missed
}

// report counts what has run.
type report struct {
	plans    []*plan
	distinct int
	mu       sync.Mutex
	// ran has why the disturbance of a plan has not happened; empty if it has.
	ran map[*plan]string
}

func (r *report) add(p *plan, missed string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[p] = missed
}

// print prints the numbers by workload and pattern.
func (r *report) print(seed uint64) {
	numbers := map[string][3]int{}
	missed := 0
	for _, p := range r.plans {
		row := fmt.Sprintf("%-16s %-5s", p.load.name, p.pattern)
		n := numbers[row]
		n[0]++
		if why, ran := r.ran[p]; ran {
			n[1]++
			if why != "" {
				n[2]++
				missed++
				fmt.Printf("%s did not happen: %s\n", p.name, why)
			}
		}
		numbers[row] = n
	}
	for _, row := range slices.Sorted(maps.Keys(numbers)) {
		n := numbers[row]
		fmt.Printf("%s ran %3d of %3d, of which %d did not happen\n", row, n[1], n[0], n[2])
	}
	fmt.Printf("seed %d: ran %d of %d plans, which have %d classes; %d did not happen\n", seed, len(r.ran), len(r.plans), r.distinct, missed)
}
