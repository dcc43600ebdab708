package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/test"
)

// orderStep is a change of an object, whose key is random; the end of one of the runs in flight; a pause or its end; or time that passes.
type orderStep struct {
	kind, binding, object, key string
	which                      int
}

var orderSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) orderStep {
	return orderStep{
		kind: rapid.SampledFrom([]string{
			"change", "change", "change", "change", "ok", "ok", "bad", "bad", "giveup", "later", "wait", "pause",
		}).Draw(t, "kind"),
		binding: rapid.SampledFrom([]string{"h/two", "h/three", "h/grouped", "i/other"}).Draw(t, "binding"),
		object:  rapid.SampledFrom([]string{"a/x", "a/y", "a/z"}).Draw(t, "object"),
		key:     rapid.SampledFrom([]string{"red", "blue", "green"}).Draw(t, "key"),
		which:   rapid.IntRange(0, 9).Draw(t, "which"),
	}
}), 1, 50)

// TestOrderOfLanes checks what holds whatever happens: the events of an object are delivered one run at a time, in order, until they have
// succeeded or have no attempt left; no run is beyond the concurrency, or has contexts with different policies; none is lost.
func TestOrderOfLanes(t *testing.T) {
	seeds := "100"
	switch {
	case test.Long():
		seeds = "20000"
	case testing.Short():
		seeds = "50"
	}
	if err := flag.Set("rapid.checks", seeds); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := orderSteps.Draw(rt, "steps")
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = playOrder(t, steps) })
		if len(faults) > 0 {
			rt.Fatalf("%v\n%s", steps, strings.Join(faults, "\n"))
		}
	})
}

const orderWidth = 2

// orders is an executor that checks each run when it starts.
type orders struct {
	mu      sync.Mutex
	running []*orderRun
	// ended has the last change of each object that succeeded or is exhausted, open how many have been made.
	ended, made map[string]int
	faults      []string
}

type orderRun struct {
	contexts       []orderContext
	attempt, limit int
	gate           chan error
	result         string
}

// orderContext is the n-th change of an object of a binding.
type orderContext struct {
	subject string
	n       int
}

func (o *orders) fault(text string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(text, args...))
}

func (o *orders) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	env := optionsOf(in.Vars)
	text, err := os.ReadFile(env["BINDING_CONTEXT_PATH"])
	if err != nil {
		return process.Result{}, err
	}
	var contexts []struct{ Binding, Type, Object string }
	if err := json.Unmarshal(text, &contexts); err != nil {
		return process.Result{}, err
	}
	r := &orderRun{gate: make(chan error), attempt: env.number("HOOK_ATTEMPT"), limit: env.number("HOOK_ATTEMPT_LIMIT")}
	for _, c := range contexts {
		object, n, _ := strings.Cut(c.Object, "#")
		number, _ := strconv.Atoi(n)
		r.contexts = append(r.contexts, orderContext{in.Hook + "/" + c.Binding + " " + object, number})
	}
	o.begin(r)
	select {
	case err = <-r.gate:
	case <-ctx.Done():
		err = ctx.Err()
	}
	o.end(r, err)
	return process.Result{}, errors.Join(err, os.WriteFile(env["RUN_RESULT_PATH"], []byte(r.result), 0o600))
}

var orderLimits = map[string]int{"h/two": 2, "h/three": 3, "h/grouped": 2, "i/other": 0}

func (o *orders) begin(r *orderRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.running) == orderWidth {
		o.fault("%v runs beyond the concurrency", r.contexts)
	}
	last := map[string]int{}
	for _, c := range r.contexts {
		binding, _, _ := strings.Cut(c.subject, " ")
		if orderLimits[binding] != r.limit {
			o.fault("%v has the limit %d", c, r.limit)
		}
		for _, other := range o.running {
			if slices.ContainsFunc(other.contexts, func(oc orderContext) bool { return oc.subject == c.subject }) {
				o.fault("%v runs beside %v", c, other.contexts)
			}
		}
		if c.n > 0 && (c.n <= o.ended[c.subject] || c.n <= last[c.subject]) {
			o.fault("%v comes after %d and %d", c, o.ended[c.subject], last[c.subject])
		}
		last[c.subject] = c.n
	}
	o.running = append(o.running, r)
}

func (o *orders) end(r *orderRun, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = slices.DeleteFunc(o.running, func(other *orderRun) bool { return other == r })
	if err == nil || r.limit > 0 && r.attempt == r.limit || strings.Contains(r.result, "giveUp") {
		for _, c := range r.contexts {
			o.ended[c.subject] = c.n
		}
	}
}

// finish ends one of the runs in flight.
func (o *orders) finish(which int, err error, result string) (any bool) {
	o.mu.Lock()
	var r *orderRun
	if len(o.running) > 0 {
		r = o.running[which%len(o.running)]
		r.result = result
	}
	o.mu.Unlock()
	if r != nil {
		r.gate <- err
	}
	return r != nil
}

func playOrder(t *testing.T, steps []orderStep) []string {
	o := &orders{ended: map[string]int{}, made: map[string]int{}}
	w := &world{t: t, began: time.Now(), hooks: map[string]*hook.Hook{}, objects: map[string]string{}, executor: o}
	for _, line := range []string{
		"binding h/two queue=q key=.k width=2 limit=2", "binding h/three queue=q key=.k width=2 limit=3",
		"binding h/grouped queue=q key=.k width=2 group=g limit=2",
		"binding i/other queue=q key=.k width=2", "start",
	} {
		w.do(strings.Fields(line))
	}
	defer func() { w.stop() }()
	failure := errors.New("exit status 1")
	paused := false
	toggle := func() {
		command := "resume"
		if paused = !paused; paused {
			command = "pause"
		}
		w.do([]string{command, "q"})
	}
	for _, s := range steps {
		switch s.kind {
		case "change":
			h, a := w.find(s.binding)
			ev := event.Event{Type: event.Change, Hook: h, Index: a.Index, Watch: event.Modified, Object: objectOf(s.object)}
			if h.At(a).Group == "" {
				subject := s.binding + " " + s.object
				o.made[subject]++
				ev.Object.Full = event.Memory(strconv.Quote(fmt.Sprintf("%s#%d", s.object, o.made[subject])))
				ev.Key = s.key
			} else {
				ev.Object.Full = nil
			}
			w.life.Queue(ev)
		case "ok":
			o.finish(s.which, nil, "")
		case "bad":
			o.finish(s.which, failure, "")
		case "giveup":
			o.finish(s.which, failure, "giveUp: never")
		case "later":
			o.finish(s.which, failure, "retryAfter: 3s")
		case "wait":
			time.Sleep(10 * time.Second)
		case "pause":
			toggle()
		}
		synctest.Wait()
	}
	if paused {
		toggle()
	}
	for range 2 * len(steps) { // all that waits runs
		time.Sleep(time.Minute)
		for synctest.Wait(); o.finish(0, nil, ""); synctest.Wait() {
		}
	}
	for subject, n := range o.made {
		if o.ended[subject] != n {
			o.fault("%s: %d of %d changes ended", subject, o.ended[subject], n)
		}
	}
	return o.faults
}
