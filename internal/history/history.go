// Package history remembers the last runs of each hook, and lets others follow runs while they happen.
//
// Callers may rely on this:
//   - Memory is bounded: by the number of runs of each hook, and by the bytes of all of them together. Of what a hook
//     prints only the end is kept.
//   - The last failed run of a hook outlives newer ones that went well.
//   - Nothing here ever waits for somebody who follows: who is too slow misses entries, and is told how many.
package history

import (
	"cmp"
	"container/list"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a History. Zero values get defaults.
type Options struct {
	// PerHook is how many ended runs of a hook are kept; 0 means 20.
	PerHook int
	// Bytes is the size of all ended runs together; 0 means 4 MiB.
	Bytes int
	// Output is how much of a run's output is kept; 0 means 4 KiB.
	Output int
}

// Run is one attempt to run a hook.
type Run struct {
	// ID is the task's id and the attempt: "17-2".
	ID string `json:"id"`
	// Task is task.id of the log.
	Task string `json:"task"`
	Hook string `json:"hook"`
	// Queue is empty for answers to the API server.
	Queue   string `json:"queue,omitempty"`
	Binding string `json:"binding,omitempty"`
	// Event is the binding's type.
	Event string `json:"event"`
	// Why tells the first of the Events that the hook was told of.
	Why     []string `json:"why"`
	Events  int      `json:"events"`
	Attempt int      `json:"attempt"`
	Status  Status   `json:"status"`

	Started time.Time `json:"started"`
	// Waited is the time in the queue before, Took that until the end, or until now.
	Waited Duration `json:"waited"`
	Took   Duration `json:"took"`

	// Exit is how the process ended: "exit status 0", "signal: killed", or what else ended the run.
	Exit  string `json:"exit,omitempty"`
	Error string `json:"error,omitempty"`
	// Output is the end of what the hook printed; OutputCut tells that there was more.
	Output    string `json:"output,omitempty"`
	OutputCut bool   `json:"outputCut,omitempty"`
	// Patches are the first changes that the hook asked for, PatchCount is how many there were.
	Patches    []Patch `json:"patches,omitempty"`
	PatchCount int     `json:"patchCount,omitempty"`
}

// Patch names a change of an object. Values are never kept.
type Patch struct {
	Operation string `json:"operation"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Status of a run.
type Status string

const (
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	// Allowed is a failure that the binding allows: the run is not tried again.
	Allowed Status = "failed, allowed"
	// Interrupted runs were ended by the shutdown.
	Interrupted Status = "interrupted"
)

// Bad tells whether the run failed, allowed or not.
func (s Status) Bad() bool { return s == Failed || s == Allowed }

// Duration is written as Go does: "1.5s".
type Duration time.Duration

func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t >= 10*time.Second:
		return t.Round(time.Second).String()
	case t >= time.Second:
		return t.Round(10 * time.Millisecond).String()
	case t >= time.Millisecond:
		return t.Round(time.Millisecond).String()
	}
	return t.Round(time.Microsecond).String()
}

// MarshalText makes it a string in JSON.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is the way back.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Outcome is how a run ended.
type Outcome struct {
	Status Status
	Took   time.Duration
	Exit   string
	Error  string
	// Patches may be all of them; a few are kept.
	Patches []Patch
}

// Bounds of what is kept of one run.
const (
	maxWhy     = 10
	maxPatches = 20
	maxError   = 2 << 10
	// overhead is what a run costs beside its texts.
	overhead = 512
)

// History is safe for concurrent use.
type History struct {
	opts Options
	// following is the number of followers.
	following atomic.Int32

	mu sync.Mutex
	// hooks have their runs, oldest first, those that are running included.
	hooks map[string][]*Record
	// ended are all runs that have ended, in that order, and size is what they cost.
	ended     list.List
	size      int
	followers map[*Follower]bool
}

// New returns an empty History.
func New(o Options) *History {
	o.PerHook = cmp.Or(o.PerHook, 20)
	o.Bytes = cmp.Or(o.Bytes, 4<<20)
	o.Output = cmp.Or(o.Output, 4<<10)
	return &History{opts: o, hooks: map[string][]*Record{}, followers: map[*Follower]bool{}}
}

// Record takes what happens in one run.
type Record struct {
	history *History
	// ended is the place in the list of all ended runs, nil before the end.
	ended *list.Element
	size  int

	// mu guards what follows. It is taken after that of the History.
	mu   sync.Mutex
	run  Run
	tail tail
}

// Begin remembers a run that begins. ID, Status and Started are set here.
func (h *History) Begin(r Run) *Record {
	r.ID = r.Task + "-" + strconv.Itoa(r.Attempt)
	r.Status, r.Started = Running, time.Now()
	r.Why = cutList(r.Why, maxWhy)
	rec := &Record{history: h, run: r, tail: tail{limit: h.opts.Output}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hooks[r.Hook] = append(h.hooks[r.Hook], rec)
	h.tell(Entry{Time: r.Started, Hook: r.Hook, Run: r.ID, Kind: Began, Text: rec.run.Reason()})
	return rec
}

// cutList copies the beginning of a list, so that the rest can be freed.
func cutList[T any](all []T, limit int) []T { return slices.Clone(all[:min(limit, len(all))]) }

// Reason is Why on one line.
func (r *Run) Reason() string {
	text := strings.Join(r.Why[:min(3, len(r.Why))], ", ")
	if more := r.Events - min(3, len(r.Why)); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Output takes a line that the hook printed.
func (r *Record) Output(line []byte) {
	r.mu.Lock()
	r.tail.add(line)
	r.mu.Unlock()
	r.history.line(r, line)
}

// End tells how the run ended.
func (r *Record) End(o Outcome) {
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	r.mu.Lock()
	r.run.Status, r.run.Took, r.run.Exit = o.Status, Duration(o.Took), o.Exit
	r.run.Error = cutMiddle(o.Error, maxError)
	r.run.Patches, r.run.PatchCount = cutList(o.Patches, maxPatches), len(o.Patches)
	r.run.Output, r.run.OutputCut = r.tail.text()
	r.tail = tail{}
	r.size = r.run.cost()
	run := r.run
	r.mu.Unlock()
	h.size += r.size
	r.ended = h.ended.PushBack(r)
	h.trim(run.Hook)
	h.tell(Entry{Time: time.Now(), Hook: run.Hook, Run: run.ID, Kind: Ended, Text: run.Outcome()})
}

// Outcome is the end of a run on one line, without what the hook printed.
func (r *Run) Outcome() string {
	if r.Status == Running {
		return "running for " + r.Took.String()
	}
	return string(r.Status) + " after " + r.Took.String() + ": " + r.Exit
}

func (r *Run) cost() int {
	n := overhead + len(r.Error) + len(r.Output)
	for _, w := range r.Why {
		n += 16 + len(w)
	}
	for _, p := range r.Patches {
		n += 64 + len(p.Operation) + len(p.Kind) + len(p.Namespace) + len(p.Name)
	}
	return n
}

// trim drops the oldest runs until all limits hold again.
func (h *History) trim(hook string) {
	ended := 0
	for _, r := range h.hooks[hook] {
		if r.ended != nil {
			ended++
		}
	}
	for ; ended > h.opts.PerHook; ended-- {
		h.drop(h.dispensable(hook))
	}
	for h.size > h.opts.Bytes && h.ended.Len() > 1 {
		h.drop(h.ended.Front().Value.(*Record))
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
	h.ended.Remove(r.ended)
	h.size -= r.size
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
	return run
}

// Runs returns the runs of a hook, or of all hooks when it is empty, the latest first.
func (h *History) Runs(hook string) []Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := []Run{}
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
	if found == nil {
		return Run{}, false
	}
	return found.copy(), true
}
