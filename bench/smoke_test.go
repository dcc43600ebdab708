package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/kube"
)

var update = flag.Bool("update", false, "write baseline.json from what is measured")

// baselineFile holds the figures of the smoke test that were last accepted.
const baselineFile = "baseline.json"

// growth is how much more than the baseline is too much.
const growth = 0.20

// TestSmoke counts what an event costs, running and waiting, and what an object keeps, and compares that with the baseline. Nothing is
// timed, so a busy machine does not matter. The operator runs in this process, on an API server that is a few lines of Go.
func TestSmoke(t *testing.T) {
	if os.Getenv("BENCH_SMOKE") == "" {
		t.Skip("run 'make bench-smoke'")
	}
	counted := map[string]float64{}
	perEvent(t, "plain", full, counted)
	perEvent(t, "jqFilter", "  jqFilter: '{labels: .metadata.labels, mode: .data.mode, round: .metadata.resourceVersion}'\n", counted)
	counted["bytes kept per object, full"] = perObject(t, full)
	counted["bytes kept per object, filter only"] = perObject(t, filtered)
	counted["bytes per waiting event"] = perWaiting(t, 1)
	counted["bytes per waiting event, hooks in turn"] = perWaiting(t, 2)
	if *update {
		text, err := json.MarshalIndent(counted, "", "  ")
		if err == nil {
			err = os.WriteFile(baselineFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	compare(t, counted)
}

// compare prints all figures that were counted or are expected, sorted, and fails for those that are too large or missing.
func compare(t *testing.T, counted map[string]float64) {
	t.Helper()
	text, err := os.ReadFile(baselineFile)
	if err != nil {
		t.Fatal(err)
	}
	var baseline map[string]float64
	if err := json.Unmarshal(text, &baseline); err != nil {
		t.Fatalf("%s: %v", baselineFile, err)
	}
	names := slices.Collect(maps.Keys(counted))
	for name := range baseline {
		if _, is := counted[name]; !is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		now, is := counted[name]
		was, known := baseline[name]
		verdict, wrong := "ok", ""
		switch {
		case !is:
			verdict, wrong = "NOT COUNTED", "it was not counted"
		case !known:
			verdict, wrong = "NOT IN THE BASELINE", "it is not in the baseline"
		case now > was*(1+growth):
			verdict, wrong = "GREW", fmt.Sprintf("%.1f, the baseline is %.1f", now, was)
		case now < was*(1-growth):
			verdict = "fell: make the baseline smaller"
		}
		fmt.Printf("%-40s %8.1f  baseline %8.1f  %+.0f %%  %s\n", name, now, was, (now/was-1)*100, verdict)
		if wrong != "" {
			t.Errorf("%s: %s: find out why, or accept it with 'make bench-smoke UPDATE=1' and say why in the commit", name, wrong)
		}
	}
}

// perEvent counts allocations and hops from a change to the end of its run, one change after the other.
func perEvent(t *testing.T, what, binding string, counted map[string]float64) {
	t.Helper()
	const warmUp, events, traced = 50, 400, 100
	server := newFakeServer(t, 100)
	op := runHere(t, server, snapshotHook("ConfigMap", "default", "  executeHookOnEvent: [Modified]\n"+binding))
	op.until("Unlock kubernetes.Event tasks")
	version := 0 // version 0 is in the list
	change := func(times int) {
		for range times {
			version++
			server.change(version%100, version)
			op.until("Hook executed successfully")
		}
	}
	change(warmUp)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	change(events)
	runtime.ReadMemStats(&after)
	counted["allocations per event, "+what] = float64(after.Mallocs-before.Mallocs) / events
	hops, err := countHops(func() { change(traced) })
	if err != nil {
		t.Fatal(err)
	}
	op.stop()
	counted["hops per event, "+what] = hops
}

// The log of the execution trace in which countHops finds the way of an event.
const (
	traceCategory = "bench"
	traceSent     = "sent"
	traceRun      = "run"
)

// countHops returns how many goroutines are woken between the sending of an event by the fake API server and the
// start of its run: the median over the events that do makes. The last wake-up is the one of the goroutine that runs.
func countHops(do func()) (float64, error) {
	var buf bytes.Buffer
	if err := trace.Start(&buf); err != nil {
		return 0, err
	}
	do()
	trace.Stop()
	r, err := xtrace.NewReader(&buf)
	if err != nil {
		return 0, err
	}
	var all []float64
	on, woken := false, 0.0
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		switch ev.Kind() {
		case xtrace.EventLog:
			switch l := ev.Log(); {
			case l.Category != traceCategory:
			case l.Message == traceSent:
				on, woken = true, 0
			case l.Message == traceRun && on:
				on, all = false, append(all, woken)
			}
		case xtrace.EventStateTransition:
			st := ev.StateTransition()
			if !on || st.Resource.Kind != xtrace.ResourceGoroutine {
				continue
			}
			if from, to := st.Goroutine(); from == xtrace.GoWaiting && to == xtrace.GoRunnable {
				woken++
			}
		}
	}
	if len(all) == 0 {
		return 0, errors.New("the trace shows no event")
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// perObject measures how many bytes of heap an object takes once everything is at rest.
func perObject(t *testing.T, binding string) float64 {
	t.Helper()
	const many = 20_000
	used := func(objects int) float64 {
		server := newFakeServer(t, objects)
		op := runHere(t, server, snapshotHook("ConfigMap", "default", binding))
		op.until("Unlock kubernetes.Event tasks")
		heap := heapInUse()
		op.stop()
		return heap
	}
	few := used(1)
	return (used(many) - few) / (many - 1)
}

// perWaiting measures how many bytes of heap an event takes that waits for a hook which hangs. The events are those of
// small results of a filter. With one hook they are joined, with more that share the queue none are.
func perWaiting(t *testing.T, hooks int) float64 {
	t.Helper()
	const many = 20_000
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range hooks {
		texts = append(texts,
			hook("{configVersion: v1, kubernetes: [{apiVersion: v1, kind: ConfigMap, namespace: {nameSelector: {matchNames: [default]}}, "+
				"keepFullObjectsInMemory: false,"+
				" jqFilter: .metadata.resourceVersion, executeHookOnSynchronization: false, executeHookOnEvent: [Modified]}]}", "cat "+gate))
	}
	server := newFakeServer(t, 100)
	op := runHere(t, server, texts...)
	for range hooks {
		op.until("Unlock kubernetes.Event tasks")
	}
	version := 0 // version 0 is in the list
	change := func(events int) {
		op.awaited.Store(int64(events))
		for range events / hooks {
			version++
			server.change(version%100, version)
		}
		op.until("queue task")
	}
	change(100 * hooks)
	before := heapInUse()
	change(many)
	used := (heapInUse() - before) / many
	op.cancel()
	if err := os.WriteFile(gate, nil, 0o600); err != nil { // waits for the hook
		t.Fatal(err)
	}
	op.stop()
	return used
}

func heapInUse() float64 {
	heap := math.Inf(1)
	for range 3 { // what ended a moment ago may need more than one round
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = min(heap, float64(m.HeapAlloc))
	}
	return heap
}

// here is an operator in this process.
type here struct {
	t        *testing.T
	messages chan string
	// awaited is how many events have to come to a queue until a message is logged.
	awaited      atomic.Int64
	ended        chan error
	cancel, stop func()
}

func runHere(t *testing.T, server *fakeServer, hookTexts ...string) *here {
	t.Helper()
	b := &bench{T: t}
	op := &here{t: t, messages: make(chan string, 1024), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	dir, tmp := b.hooks(hookTexts...), t.TempDir()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: fake, contexts: [{name: fake, context: {cluster: fake, "+
		"user: fake}}],"+
		" clusters: [{name: fake, cluster: {server: %q}}], users: [{name: fake, user: {}}]}", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		op.ended <- app.Run(ctx, context.Background(), app.Options{
			HooksDir: dir, TmpDir: tmp, Cluster: kube.Options{Kubeconfig: kubeconfig, QPS: -1}, Env: os.Environ(), Log: slog.New(op.handler()),
			ConfigTimeout: time.Minute, RetryMin: time.Second, RetryMax: time.Minute, ShutdownTimeout: 10 * time.Second,
			KeepManagedFields: true, ListenAddress: "127.0.0.1:0", Metrics: app.MetricsOptions{Prefix: "shell_operator_"},
			Debug: app.DebugOptions{Level: new(slog.LevelVar)},
		})
	}()
	op.cancel, op.stop = cancel, func() {
		cancel()
		if err := <-op.ended; err != nil {
			t.Fatal(err)
		}
	}
	return op
}

// until waits for a message of the log.
func (op *here) until(message string) {
	op.t.Helper()
	late := time.NewTimer(3 * time.Minute)
	defer late.Stop()
	for {
		select {
		case m := <-op.messages:
			if strings.HasPrefix(m, message) {
				return
			}
		case err := <-op.ended:
			op.t.Fatalf("the operator has ended: %v", err)
		case <-late.C:
			op.t.Fatalf("waited for %q for three minutes", message)
		}
	}
}

// handler passes on only the messages that tests wait for, so that waiting costs little.
func (op *here) handler() slog.Handler { return messages{op} }

type messages struct{ op *here }

func (messages) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (m messages) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Execute hook" {
		trace.Log(ctx, traceCategory, traceRun)
	}
	if r.Message == "Hook executed successfully" || r.Message == "Unlock kubernetes.Event tasks" ||
		r.Message == "queue task" && m.op.awaited.Add(-1) == 0 {
		m.op.messages <- r.Message
	}
	return nil
}
func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m messages) WithGroup(string) slog.Handler      { return m }
