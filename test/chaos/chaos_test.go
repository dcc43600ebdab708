// Package chaos breaks everything around a running operator, while objects change by a random plan, and then compares
// what hooks received with what has happened. The contract is in docs/explanation/failures.md.
//
// `go test` runs the cases that no other test has, CHAOS=1 all; SEED=n repeats plans, CASE=name runs the cases whose names have that in
// them. `make chaos` is all of it. The table of verdicts is printed, and written to $CHAOS_REPORT as JSON if that is set.
package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const terminate = syscall.SIGTERM

// all selects all cases.
var all = os.Getenv("CHAOS") != ""

// seed is the one of this run. It is constant unless SEED sets another one.
var seed = sync.OnceValue(func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return n
	}
	return 1
})

// short are the cases of `go test`. The tests of packages, and of test/conformance, failover and reload, have faults like the others,
// one at a time.
var short = []string{
	"apiserver-killed", "cut-in-the-middle", "disk-full", "owners-come-and-go", "sets-by-requests", "sets-by-requests-of-shards",
}

// wanted skips cases that CASE does not select.
func wanted(t *testing.T, name string) {
	t.Helper()
	if part := os.Getenv("CASE"); part != "" {
		if !strings.Contains(name, part) {
			t.SkipNow()
		}
		return
	}
	if !all && !slices.Contains(short, name) {
		t.Skip("not in the short selection: run 'make chaos'")
	}
}

// together lets a case run beside others that break only what is theirs, in the short selection. In the long one the
// figures are to be the figures of one case alone.
func together(t *testing.T) {
	t.Helper()
	if !all {
		t.Parallel()
	}
}

// result is one row of the table.
type result struct {
	Case    string        `json:"case"`
	Seed    uint64        `json:"seed"`
	Verdict string        `json:"verdict"`
	Took    time.Duration `json:"nanoseconds"`
	// Changes is the number of changes, Received the number of contexts that the hooks received.
	Changes  int      `json:"changes"`
	Received int      `json:"received"`
	Wrong    []string `json:"wrong,omitempty"`
}

var (
	resultsMu sync.Mutex
	results   []result
)

func TestMain(m *testing.M) {
	status := m.Run()
	for _, r := range results {
		fmt.Printf("%-44s seed %-4d %-6s %6.1fs %6d changes %6d contexts\n", r.Case, r.Seed, r.Verdict, r.Took.Seconds(), r.Changes, r.Received)
	}
	if path := os.Getenv("CHAOS_REPORT"); path != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// judge ends a case: it checks everything, and adds a row to the table.
func (w *world) judge(name string, started time.Time) {
	w.t.Helper()
	w.judgeBy(name, started, func() []string {
		wrong := w.verdict()
		if w.standby != nil { // first, or it would take over
			w.standby.Signal(terminate)
			w.standby.Wait()
		}
		w.op.Signal(terminate)
		w.op.Wait()
		return wrong
	})
}

// judgeBy is judge with another verdict, after which no operator runs.
func (w *world) judgeBy(name string, started time.Time, verdict func() []string) {
	w.t.Helper()
	r := result{Case: name, Seed: w.seed, Verdict: "FAILED"}
	defer func() { // also of a case that does not get to its end
		r.Took, r.Received = time.Since(started), w.seen()
		for _, versions := range w.writer.history() {
			r.Changes += len(versions)
		}
		resultsMu.Lock()
		defer resultsMu.Unlock()
		results = append(results, r)
	}()
	if w.t.Failed() {
		return
	}
	r.Wrong = append(verdict(), w.left()...)
	if len(r.Wrong) == 0 {
		r.Verdict = "ok"
		return
	}
	for _, text := range r.Wrong[:min(len(r.Wrong), 20)] {
		w.t.Error(text)
	}
	w.t.Errorf("repeat it with: make chaos SEED=%d CASE=%s", seed(), name)
}

// begin starts the operator among objects that exist, and the writer.
func (w *world) begin() {
	w.t.Helper()
	w.beginWith(func() { w.launch() })
}

func (w *world) beginWith(launch func()) {
	w.t.Helper()
	w.writer.stir(30)
	launch()
	w.settle()
	w.idle()
	w.rest = w.usage()
	w.rest.workers = w.workers
	w.writer.start()
}

// A fault alone, for each.
func TestFaults(t *testing.T) {
	together(t)
	cluster := clusterFor(t)
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			wanted(t, f.name)
			w := newWorld(t, cluster(), seed()*1000+uint64(i), true, hooksFor(f)...)
			defer w.judge(f.name, time.Now())
			w.begin()
			during := func() {
				f.begin(w)
				time.Sleep(w.length(f))
				f.end(w)
			}
			if f.strict {
				w.hide(during)
			} else {
				w.lose(during)
			}
			if f.met == nil {
				return
			}
			if missing := f.met(w); missing != "" {
				t.Error("the operator has not met the fault: " + missing)
			}
		})
	}
}

// clusterFor returns a control plane that the cases of one test may break, one after the other. It is started when the
// first of them needs it.
func clusterFor(t *testing.T) func() *testenv.Cluster {
	t.Helper()
	testenv.Require(t) // here, as it ends the test that it is called in
	return sync.OnceValue(func() *testenv.Cluster { return testenv.Own(t) })
}

func hooksFor(faults ...fault) []string {
	hooks := []string{"plain", "filtered", "grouped", "labelled", "mirror"}
	if slices.ContainsFunc(faults, func(f fault) bool { return f.widgets }) {
		hooks = append(hooks, "widgets")
	}
	return hooks
}

// length is how long a fault lasts: at random, unless it says so.
func (w *world) length(f fault) time.Duration {
	if f.lasts > 0 {
		return f.lasts
	}
	return time.Second + time.Duration(w.random.IntN(3000))*time.Millisecond
}
