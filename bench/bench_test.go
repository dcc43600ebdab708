// Package bench measures what users feel, on a real control plane: `make bench` prints a table of figures and writes
// results.json. It measures whole processes and takes minutes; benchmarks of single parts stand beside the parts.
//
// Promises:
//   - Each scenario measures the bare thing that bounds it in the same run, mostly in turns with the operator, so that a slow
//     or busy machine slows both.
//   - A figure is the median of several repetitions, and comes with its spread.
//   - Times are wall time, CPU time and memory come from /proc.
package bench

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// scenario is one row of the table of the performance page.
type scenario struct {
	name, what string
	run        func(b *bench)
}

// scenarios are in the order in which they run: those with many objects last, because the objects stay.
var scenarios = []scenario{
	{"latency", "create → first line of a sh hook, on an idle operator", latency},
	{"idle", "20 hooks that have nothing to do, for 60 s", idle},
	{"admission", "sh hook, 1, 10 and 50 requests a second", admission},
	{"workers", "Python and bash hooks that start once, and without worker", workers},
	{"kubectl", "calls of kubectl in hooks, trimmed and complete", kubectlCalls},
	{"kubectl-list", "kubectl get of 10,000 Pods, trimmed and complete", kubectlList},
	{"typical-hook", "bash, three jq, a kubectl get and a kubectl apply", typicalHook},
	{"patches", "200 and 5,000 operations from one run", patches},
	{"large-outputs", "1 and 10 runs at a time with 200 MB of operations each", largeOutputs},
	{"sets", "sets of 100 objects: new, after a restart, with one change and with none; members that are deleted", sets},
	{"storm", "3,000 updates of 100 objects by 8 writers", storm},
	{"storm-lanes", "the same in a keyed queue, 4 runs at a time", stormLanes},
	{"storm-two", "the same for two hooks on one queue", stormTwo},
	{"storm-slow", "the same for a hook of 1 s", stormSlow},
	{"flood", "3,000 changes of 64 KiB while the hook is busy", flood},
	{"lanes", "1,000 changes of 1,000 objects in a keyed queue, 16 runs at a time", lanes},
	{"lanes-hot", "one object that changes all the time beside 500 calm ones", lanesHot},
	{"team", "an operator with three hooks for the objects of one namespace", team},
	{"start-full", "start with 10,000 ConfigMaps, full objects", startFull},
	{"start-filter", "the same with a filter and without full objects", startFilter},
	{"ten-filters", "10 hooks with 10 filters over 10,000 ConfigMaps", tenFilters},
	{"big-context", "a snapshot of 10,000 objects in each of 100 runs", bigContext},
	{"kinds", "10,000 Pods, Secrets and Events", kinds},
	{"start-filter-100k", "start with 100,000 ConfigMaps, filter, no full objects", startFilter100k},
	{"start-full-100k", "start with 100,000 ConfigMaps, full objects", startFull100k},
}

var resultsFile = flag.String("results", "", "where to write the figures as JSON")

func TestMain(m *testing.M) {
	if role := os.Getenv("BENCH_BARE"); role != "" {
		bare(role)
		return
	}
	flag.Parse()
	status := m.Run()
	if len(figures) > 0 {
		printTable(os.Stdout)
		if *resultsFile != "" {
			if err := writeResults(*resultsFile); err != nil {
				fmt.Fprintln(os.Stderr, err)
				status = 1
			}
		}
	}
	os.Exit(status)
}

// TestScenarios runs all scenarios, or those whose names match -run TestScenarios/name.
func TestScenarios(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("measures for many minutes: run 'make bench', or 'make bench SCENARIO=name'")
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			started := time.Now()
			b := &bench{T: t, scenario: s, cluster: testenv.Shared(t)}
			b.progress("%s", s.what)
			s.run(b)
			b.progress("done after %s", time.Since(started).Round(time.Second))
		})
	}
}

// bench is a running scenario.
type bench struct {
	*testing.T
	scenario
	cluster *testenv.Cluster
	// profiling are the profiles that are being taken.
	profiling sync.WaitGroup
}

// progress prints the progress of a long run.
func (b *bench) progress(format string, args ...any) {
	fmt.Printf("%s  %-18s %s\n", time.Now().Format("15:04:05"), b.name, fmt.Sprintf(format, args...))
}
