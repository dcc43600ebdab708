// Package history keeps the last runs of each hook and of each object, and publishes runs to followers as they happen.
//
// Callers may rely on this:
//   - Memory is bounded by the number of runs per hook and by the bytes of all runs. Of the output of a hook
//     only the end is kept.
//   - The last failed run of a hook is kept longer than newer successful runs. Beside the last runs of a hook, the last failed and the last
//     successful run of each object are kept, as long as there are bytes for them.
//   - Publishing never blocks: a slow follower loses entries and receives their number.
package history

import (
	"cmp"
	"container/list"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/run"
)

// Bounds of what is kept of one run.
const (
	maxWhy     = 10
	maxPatches = 20
	maxError   = 2 << 10
	// overhead is the cost of a run beside its texts, whyOverhead the cost of a reason with its object.
	overhead    = 512
	whyOverhead = 128
)

// History is safe for concurrent use.
type History struct {
	// perHook is how many ended runs of a hook are kept, bytes is the size of all ended runs together, output how much of a run's
	// output is kept.
	perHook, bytes, output int

	mu sync.Mutex
	// hooks are the runs by hook, oldest first, including running ones.
	hooks map[string][]*Record
	// ended are the ended ones in the order of their ends. Held are earlier ones, which are not in hooks: each is the last failed or the last
	// successful run of an object. Size is the sum of the costs of both.
	ended, held list.List
	size        int
	last        map[outcomeOf]*Record
	followers   map[*Follower]bool
	// failing are the runs for requests that have failed since the last success of their binding.
	failing map[reviewed]int
}

// New returns an empty History.
func New() *History {
	return &History{perHook: 20, bytes: 4 << 20, output: 4 << 10, hooks: map[string][]*Record{}, followers: map[*Follower]bool{},
		last: map[outcomeOf]*Record{}, failing: map[reviewed]int{}}
}

// outcomeOf is a failed or successful run of an object of a binding.
type outcomeOf struct {
	hook, object string
	failed       bool
}

// Record receives the events of one run.
type Record struct {
	history *History
	// ended is its element in the list of ended or, if it is held, of held runs, nil before the end.
	ended *list.Element
	held  bool
	size  int
	// last counts the objects of which it is the last one of its outcome.
	last int

	// mu guards the next fields. It is taken after the mutex of the History.
	mu   sync.Mutex
	run  Run
	tail tail
	// end is when it ended.
	end time.Time
}

// endEntry is the entry of its end.
func (r *Record) endEntry() Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Entry{Time: r.end, Hook: r.run.Hook, Run: r.run.ID, Kind: Ended, Text: r.run.Summary() + r.run.operations(), Status: r.run.Status}
}

// Begin adds a run that begins. It sets Status and Started, and ID if it is empty.
func (h *History) Begin(r Run) *Record {
	r.ID = cmp.Or(r.ID, r.Task+"-"+strconv.Itoa(r.Attempt))
	r.Status, r.Started = Running, time.Now()
	r.Why = slices.Clone(r.Why[:min(maxWhy, len(r.Why))]) // so that the rest can be freed
	rec := &Record{history: h, run: r, tail: tail{limit: h.output}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hooks[r.Hook] = append(h.hooks[r.Hook], rec)
	h.publish(func() Entry {
		return Entry{Time: r.Started, Hook: r.Hook, Run: r.ID, Kind: Began, Text: rec.run.Reason()}
	})
	return rec
}

// Output takes a line that the hook printed.
func (r *Record) Output(line []byte) {
	r.mu.Lock()
	r.tail.add(line)
	r.mu.Unlock()
	r.history.line(r, line)
}

// Started takes the pid of the process.
func (r *Record) Started(pid int) {
	r.mu.Lock()
	r.run.PID = pid
	r.mu.Unlock()
}

// Processed notes that the process has ended.
func (r *Record) Processed() {
	r.mu.Lock()
	r.run.processed = max(1, Duration(time.Since(r.run.Started)))
	r.mu.Unlock()
}

// Tail returns the end of the output so far.
func (r *Record) Tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, _ := r.tail.text()
	return text
}

// End records the outcome.
func (r *Record) End(o Outcome) {
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	r.mu.Lock()
	r.run.Outcome, r.run.PID = o, 0
	r.run.Error, r.run.Answer = Cut(o.Error, maxError), Cut(o.Answer, maxError)
	if len(o.Patches) > maxPatches { // those that failed are kept, and those with warnings
		failed := func(c run.Change) int { return strings.Count(c.Outcome, run.Failed) }
		slices.SortStableFunc(o.Patches, func(a, b run.Change) int {
			return cmp.Or(cmp.Compare(failed(b), failed(a)), cmp.Compare(len(b.Warnings), len(a.Warnings)))
		})
	}
	r.run.Patches, r.run.PatchCount = slices.Clone(o.Patches[:min(maxPatches, len(o.Patches))]), len(o.Patches)
	r.run.Output, r.run.OutputCut = r.tail.text()
	r.tail, r.end = tail{}, time.Now()
	r.size = r.run.cost()
	ended := r.run
	r.mu.Unlock()
	if ended.Queue == "" {
		h.review(&ended)
	}
	h.size += r.size
	r.ended = h.ended.PushBack(r)
	for of := range ended.outcomes() {
		before := h.last[of]
		if before == r {
			continue // by another event of the object
		}
		h.last[of] = r
		r.last++
		if before == nil {
			continue
		}
		if before.last--; before.last == 0 && before.held {
			h.drop(before)
		}
	}
	h.trim(ended.Hook)
	h.publish(r.endEntry)
}

// trim drops the oldest runs until all limits hold again.
func (h *History) trim(hook string) {
	ended := 0
	for _, r := range h.hooks[hook] {
		if r.ended != nil {
			ended++
		}
	}
	for ; ended > h.perHook; ended-- {
		r := h.dispensable(hook)
		if r.last == 0 {
			h.drop(r)
			continue
		}
		h.leave(r)
		r.ended, r.held = h.held.PushBack(r), true
	}
	for h.size > h.bytes && h.ended.Len()+h.held.Len() > 1 {
		oldest := h.held.Front()
		if oldest == nil {
			oldest = h.ended.Front()
		}
		h.drop(oldest.Value.(*Record))
	}
}

// dispensable is the oldest ended run of a hook that is not its last failure.
func (h *History) dispensable(hook string) *Record {
	var oldest, lastFailure *Record
	for _, r := range h.hooks[hook] {
		if r.ended != nil && r.run.Status.Bad() {
			lastFailure = r
		}
	}
	for _, r := range h.hooks[hook] {
		if r.ended == nil {
			continue
		}
		if r != lastFailure {
			return r
		}
		oldest = r
	}
	return oldest
}

func (h *History) drop(r *Record) {
	h.size -= r.size
	for of := range r.run.outcomes() {
		if h.last[of] == r {
			delete(h.last, of)
		}
	}
	if r.held {
		h.held.Remove(r.ended)
	} else {
		h.leave(r)
	}
}

// leave removes a run from the runs of its hook.
func (h *History) leave(r *Record) {
	h.ended.Remove(r.ended)
	name := r.run.Hook
	h.hooks[name] = slices.DeleteFunc(h.hooks[name], func(other *Record) bool { return other == r })
	if len(h.hooks[name]) == 0 {
		delete(h.hooks, name)
	}
}

// copy is the run as it is now.
func (r *Record) copy() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run
	if run.Status == Running {
		run.Took = Duration(time.Since(run.Started))
		run.Output, run.OutputCut = r.tail.text()
	}
	run.Phases = run.Parts()
	return run
}

// Runs returns the last runs of a hook, or of all hooks when it is empty, the latest first.
func (h *History) Runs(hook string) []Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs(hook, []Run{})
}

// All returns Runs, and the last failed and the last successful one of each object.
func (h *History) All(hook string) []Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := []Run{}
	for e := h.held.Front(); e != nil; e = e.Next() {
		if r := e.Value.(*Record); hook == "" || r.run.Hook == hook {
			runs = append(runs, r.copy())
		}
	}
	return h.runs(hook, runs)
}

// runs adds the last runs of a hook to others. It requires mu.
func (h *History) runs(hook string, runs []Run) []Run {
	for name, records := range h.hooks {
		if hook != "" && name != hook {
			continue
		}
		for _, r := range records {
			runs = append(runs, r.copy())
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) })
	return runs
}

// Run returns a run by its id, or the last one of a task by the task's id.
func (h *History) Run(id string) (Run, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *Record
	for _, records := range h.hooks {
		for _, r := range records {
			if r.run.ID == id {
				return r.copy(), true
			}
			if r.run.Task == id {
				found = r
			}
		}
	}
	for e := h.held.Back(); e != nil; e = e.Prev() {
		if r := e.Value.(*Record); r.run.ID == id || r.run.Task == id && found == nil {
			found = r
		}
	}
	if found == nil {
		return Run{}, false
	}
	return found.copy(), true
}
