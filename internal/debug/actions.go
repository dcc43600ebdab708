package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// Actions change a running operator. They end with the process, except for what they have dropped.
type Actions interface {
	// RetryQueue ends the delay of a lane, or of all lanes of a queue, and returns how many it ended.
	RetryQueue(queue, key string, all bool) int
	// SkipTask drops the failed task at the head of a lane, unless it runs, and reports what it was.
	SkipTask(queue, key string) (description string, ok bool)
	PauseQueue(queue string)
	ResumeQueue(queue string)
	PauseHook(hook string)
	ResumeHook(hook string)
	// Trigger queues a run of a binding and returns the id of its task.
	Trigger(h *hook.Hook, a hook.Address) (task string, err error)
	// RecordAll records all runs of a hook until a time; false if nothing of the hook is recorded. A dry run only checks that.
	RecordAll(h *hook.Hook, until time.Time, dryRun bool) bool
	// RetryParked and DropParked return the ids of those parked tasks that there were. The oldest come first.
	RetryParked(ids ...string) []string
	DropParked(ids ...string) []string
	// RemoveFinalizer removes a finalizer of an installation from all objects, and returns of how many resources.
	RemoveFinalizer(ctx context.Context, name, instance string) (resources int, err error)
	// ReleaseObject removes the finalizers of hooks from one object, and returns them.
	ReleaseObject(ctx context.Context, kind, namespace, name string) (finalizers []string, err error)
	// DeleteSet prunes a set, and returns how many objects were deleted, and how many released and kept.
	DeleteSet(ctx context.Context, set Set) (deleted, released int, err error)
	// AdoptSet moves a set to another hook or name, and returns the new id and the number of objects. With join that set may have objects already.
	AdoptSet(ctx context.Context, set, to Set, join, dryRun bool) (id string, moved int, err error)
}

// ParkedTask is a task that has failed for the last time and is kept.
type ParkedTask struct {
	ID    string `json:"id"`
	Hook  string `json:"hook"`
	Queue string `json:"queue"`
	Key   string `json:"key,omitempty"`
	// Bindings are distinct. About are the first contexts, in words.
	Bindings []string  `json:"bindings"`
	About    []string  `json:"about"`
	Contexts int       `json:"contexts"`
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	// Error is that of the last attempt, with the reason to give up. GaveUp reports that the hook did, before its last attempt.
	Error  string `json:"error"`
	GaveUp bool   `json:"gaveUp,omitempty"`
}

// caller is the key of the client of the socket that has sent a request.
type caller struct{}

// client is a process at the other end of the socket.
type client struct {
	// uid is its user, or "unknown".
	uid string
	// hook: the operator has started it, or a process that it has started.
	hook bool
}

// actions is an action on one queue, hook or parked task; its method takes the form fields of its route.
type action func(a *API, r request, dryRun bool) (acted, error)

// acted is what an action has done, or would do.
type acted struct {
	Action string `json:"action"`
	// Count is how many lanes or tasks it was about.
	Count int `json:"count"`
	// Task is the id of a task that was queued.
	Task   string `json:"task,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`
	// Message is what happened, in words.
	Message string `json:"message"`
}

// act returns the answer of a route that changes something: only to clients of the socket, and with a record of who did it.
func act(do action) func(*API, request) (answer, error) {
	return func(a *API, r request) (answer, error) {
		uid, err := actor(r)
		if err != nil {
			return answer{}, err
		}
		if _, err := a.hooks(); err != nil { // before, there are no Actions
			return answer{}, err
		}
		if err := r.ParseForm(); err != nil {
			return answer{}, refuse(http.StatusBadRequest, "the form cannot be read: %v", err)
		}
		dryRun := r.PostForm.Get("dryRun") == "true"
		done, err := do(a, r, dryRun)
		done.Action, done.DryRun = strings.TrimPrefix(r.URL.Path, "/"), dryRun
		if done.Count > 0 && !dryRun { // also a part of what was requested
			a.Log.Info("A command has changed the operator", "command", done.Action, "arguments", r.PostForm.Encode(), "uid", uid, "result", done.Message)
		}
		if err != nil {
			return answer{}, err
		}
		if dryRun {
			done.Message = "dry run: " + done.Message
		}
		return answer{value: done, text: done.Message + "\n"}, nil
	}
}

// actor is the uid of a client of the socket that is no hook. Others change nothing.
func actor(r request) (uid string, err error) {
	c, ok := r.Context().Value(caller{}).(client)
	switch {
	case !ok:
		return "", refuse(http.StatusForbidden, "commands that change something are accepted on the debug socket only").hint("run the command where the operator runs")
	case c.hook:
		return "", refuse(http.StatusForbidden, "commands that change something are not accepted from hooks").hint("run the command outside of hooks, in a Pod by kubectl exec")
	}
	return c.uid, nil
}

// withCaller makes requests of the socket known as such.
func withCaller(ctx context.Context, c client) context.Context {
	return context.WithValue(ctx, caller{}, c)
}

// queue finds the queue that the request names, with at most so many tasks.
func (a *API) queue(r request, limit int) (Queue, error) {
	decoded, _ := url.PathUnescape(r.name)
	for _, name := range []string{r.name, decoded} {
		if q, ok := a.Operator.Queue(name, limit); ok {
			return q, nil
		}
	}
	return Queue{}, refuse(http.StatusBadRequest, "there is no queue %q", decoded).hint("shell-operator queue list --show-empty shows all queues").as(unknownQueue)
}

// lane finds the lane that the form field key names. It has tasks.
func (a *API) lane(r request, q Queue) (Lane, error) {
	key := r.PostForm.Get("key")
	if l, ok := a.Operator.Lane(q.Name, key); ok {
		return l, nil
	}
	if !q.Keyed {
		return Lane{}, refuse(http.StatusBadRequest, "queue %q has no keys", q.Name).hint("leave --key out")
	}
	q, _ = a.Operator.Queue(q.Name, shownTasks)
	var keys []string
	for _, l := range q.Lanes {
		keys = append(keys, l.Key)
	}
	if nearest := spelling.Nearest(key, keys); nearest != "" {
		return Lane{}, refuse(http.StatusBadRequest, "queue %q has no task with the key %q", q.Name, key).hint("did you mean %s?", nearest)
	}
	return Lane{}, refuse(http.StatusBadRequest, "queue %q has no task with the key %q", q.Name, key).hint("shell-operator queue list shows the keys")
}

// lanes are the lanes that are shown; a FIFO queue is one.
func (q *Queue) lanes() []Lane {
	if q.Keyed {
		return q.Lanes
	}
	if q.Length == 0 {
		return nil
	}
	l := Lane{Length: q.Length, Phase: q.Phase, Since: q.Since, Left: q.Left, Failures: q.Failures, LastError: q.LastError}
	if len(q.Tasks) > 0 {
		l.Task = q.Tasks[0]
	}
	return []Lane{l}
}

func queueRetry(a *API, r request, dryRun bool) (acted, error) {
	q, err := a.queue(r, 1)
	if err != nil {
		return acted{}, err
	}
	n := q.Delayed
	if r.PostForm.Has("key") || !q.Keyed {
		n = 0
		l := Lane{Phase: q.Phase}
		if r.PostForm.Has("key") {
			if l, err = a.lane(r, q); err != nil {
				return acted{}, err
			}
		}
		if l.Phase == Sleeping {
			n = 1
		}
	}
	if !dryRun {
		n = a.Actions.RetryQueue(q.Name, r.PostForm.Get("key"), !r.PostForm.Has("key"))
	}
	if n == 0 {
		return acted{Message: fmt.Sprintf("queue %q: no task waits for its next attempt", q.Name)}, nil
	}
	return acted{Count: n, Message: fmt.Sprintf("queue %q: the next attempt of %s begins now", q.Name, count(n, "task"))}, nil
}

func queueSkip(a *API, r request, dryRun bool) (acted, error) {
	q, err := a.queue(r, 1)
	if err != nil {
		return acted{}, err
	}
	var l Lane
	switch {
	case r.PostForm.Has("key"):
		if l, err = a.lane(r, q); err != nil {
			return acted{}, err
		}
	case q.Keyed:
		return acted{}, refuse(http.StatusBadRequest, "queue %q is keyed", q.Name).hint("name the lane with --key, shell-operator queue list shows the keys")
	case q.Length > 0:
		l = q.lanes()[0]
	}
	if l.Failures == 0 || l.Phase == Running {
		return acted{Message: fmt.Sprintf("queue %q has no failed task that could be skipped; one that is running ends first", q.Name)}, nil
	}
	description := l.Task.Description
	if !dryRun {
		var ok bool
		if description, ok = a.Actions.SkipTask(q.Name, r.PostForm.Get("key")); !ok {
			return acted{}, refuse(http.StatusConflict, "the task has begun its next attempt").hint("try again when it has ended")
		}
	}
	return acted{Count: 1, Message: fmt.Sprintf("queue %q: %s is dropped; the log has its contexts", q.Name, description)}, nil
}

// untilRestart is what users of pauses have to know.
const untilRestart = "; the pause survives a reload and ends with the process"

func queuePause(a *API, r request, dryRun bool) (acted, error) {
	q, err := a.queue(r, 0)
	if err != nil {
		return acted{}, err
	}
	if !dryRun {
		a.Actions.PauseQueue(q.Name)
	}
	text := fmt.Sprintf("queue %q is paused: runs in flight end, no other begins, events are queued", q.Name)
	if q.Name == hook.MainQueue {
		text += "; Synchronizations of all hooks that are added wait, too"
	}
	return acted{Count: 1, Message: text + untilRestart}, nil
}

func queueResume(a *API, r request, dryRun bool) (acted, error) {
	q, err := a.queue(r, 0)
	if err != nil {
		return acted{}, err
	}
	if !q.Paused {
		return acted{Message: fmt.Sprintf("queue %q is not paused", q.Name)}, nil
	}
	if !dryRun {
		a.Actions.ResumeQueue(q.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("queue %q is resumed with %s", q.Name, count(q.Length, "task"))}, nil
}

func hookPause(a *API, r request, dryRun bool) (acted, error) {
	h, err := a.hook(r)
	if err != nil {
		return acted{}, err
	}
	if !dryRun {
		a.Actions.PauseHook(h.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("hook %q is paused: queues pass over its tasks; webhook and HTTP requests are answered", h.Name) + untilRestart}, nil
}

func hookResume(a *API, r request, dryRun bool) (acted, error) {
	h, err := a.hook(r)
	if err != nil {
		return acted{}, err
	}
	if !slices.Contains(a.Operator.PausedHooks(), h.Name) {
		return acted{Message: fmt.Sprintf("hook %q is not paused", h.Name)}, nil
	}
	if !dryRun {
		a.Actions.ResumeHook(h.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("hook %q is resumed", h.Name)}, nil
}

func hookTrigger(a *API, r request, dryRun bool) (acted, error) {
	h, err := a.hook(r)
	if err != nil {
		return acted{}, err
	}
	at, name, err := triggered(h, r.PostForm.Get("binding"))
	if err != nil {
		return acted{}, err
	}
	if slices.Contains(a.Operator.PausedHooks(), h.Name) {
		return acted{}, refuse(http.StatusConflict, "hook %q is paused", h.Name).hint("shell-operator hook resume %s", h.Name)
	}
	if dryRun {
		return acted{Count: 1, Message: fmt.Sprintf("hook %q: a run of binding %q would be queued", h.Name, name)}, nil
	}
	task, err := a.Actions.Trigger(h, at)
	if err != nil {
		return acted{}, conflict("", err)
	}
	if task == "" {
		return acted{Count: 1, Message: fmt.Sprintf("hook %q: an Added event of each object of binding %q is queued (shell-operator runs %s)", h.Name, name, h.Name)}, nil
	}
	return acted{Count: 1, Task: task, Message: fmt.Sprintf("hook %q: task %s is queued for binding %q (shell-operator runs show %s)", h.Name, task, name, task)}, nil
}

// recordLimit bounds the time for which all runs of a hook are recorded, recordDefault is that time if none is given.
const (
	recordLimit   = 24 * time.Hour
	recordDefault = 10 * time.Minute
)

func hookRecord(a *API, r request, dryRun bool) (acted, error) {
	h, err := a.hook(r)
	if err != nil {
		return acted{}, err
	}
	lasts := recordDefault
	if text := r.PostForm.Get("for"); text != "" {
		if lasts, err = time.ParseDuration(text); err != nil || lasts <= 0 || lasts > recordLimit {
			return acted{}, refuse(http.StatusBadRequest, "%q is not a time to record", text).hint("write for instance 10m, at most %s", history.Duration(recordLimit))
		}
	}
	until := time.Now().Add(lasts)
	if !a.Actions.RecordAll(h, until, dryRun) {
		return acted{}, refuse(http.StatusConflict, "nothing is recorded of hook %q", h.Name).hint("--record or its settings.record is none")
	}
	return acted{Count: 1, Message: fmt.Sprintf("hook %q: all runs are recorded until %s (shell-operator runs %s, then shell-operator runs save RUN)", h.Name, until.Format(time.TimeOnly), h.Name)}, nil
}

// triggered finds the binding by name: the only one if the name is empty.
func triggered(h *hook.Hook, name string) (at hook.Address, found string, err error) {
	var names []string
	for a, b := range h.Bindings() {
		if a.Kind != hook.OnStart && a.Kind != hook.OnKubernetes && a.Kind != hook.OnSchedule {
			continue
		}
		own := cmp.Or(b.Name, string(a.Kind))
		if name == "" || own == name {
			at, found = a, own
		}
		names = append(names, own)
	}
	switch {
	case found == "" && len(names) == 0:
		return at, "", refuse(http.StatusBadRequest, "hook %q has no binding that can be triggered", h.Name).hint("only onStartup, kubernetes and schedule bindings are")
	case found == "":
		return at, "", refuse(http.StatusBadRequest, "hook %q has no binding %q", h.Name, name).hint("use one of %s", strings.Join(names, ", "))
	case name == "" && len(names) > 1:
		return at, "", refuse(http.StatusBadRequest, "hook %q has %d bindings", h.Name, len(names)).hint("name one of %s", strings.Join(names, ", "))
	}
	return at, found, nil
}

func parkedList(a *API, _ request) (answer, error) {
	parked := a.Operator.Parked()
	if parked == nil {
		parked = []ParkedTask{}
	}
	if len(parked) == 0 {
		return answer{value: parked, text: "no parked tasks\n"}, nil
	}
	var b strings.Builder
	now := time.Now()
	for _, p := range parked {
		b.WriteString(p.line(now) + "\n")
		for _, about := range p.About {
			b.WriteString("    " + oneLine(about) + "\n")
		}
		b.WriteString("    " + oneLine(p.Error) + "\n")
	}
	return answer{value: parked, text: b.String()}, nil
}

func (p *ParkedTask) line(now time.Time) string {
	where := fmt.Sprintf("queue %q", p.Queue)
	if p.Key != "" {
		where += fmt.Sprintf(", key %q", p.Key)
	}
	end := "given up after"
	if p.GaveUp {
		end = "the hook gave up after"
	}
	return fmt.Sprintf("%s  %s, %s: %s of %s, %s %s, %s ago", p.ID, p.Hook, where,
		count(p.Contexts, "context"), strings.Join(p.Bindings, ", "), end, count(p.Attempts, "attempt"), history.Duration(now.Sub(p.Since).Round(time.Second)))
}

func parkedRetry(a *API, r request, dryRun bool) (acted, error) {
	return a.onParked(r, dryRun, "is queued again", func(ids []string) []string { return a.Actions.RetryParked(ids...) })
}

func parkedDrop(a *API, r request, dryRun bool) (acted, error) {
	return a.onParked(r, dryRun, "is dropped; the log has its contexts", func(ids []string) []string { return a.Actions.DropParked(ids...) })
}

// onParked acts on the parked task with the id of the form, or on all.
func (a *API) onParked(r request, dryRun bool, done string, do func(ids []string) []string) (acted, error) {
	id, all := r.PostForm.Get("id"), r.PostForm.Get("all") == "true"
	if all == (id != "") {
		return acted{}, refuse(http.StatusBadRequest, "name one parked task or all of them").hint("give an id or --all")
	}
	var ids []string
	for _, p := range a.Operator.Parked() {
		if all || p.ID == id {
			ids = append(ids, p.ID)
		}
	}
	slices.Reverse(ids) // the oldest first
	if !dryRun && len(ids) > 0 {
		ids = do(ids)
	}
	switch {
	case len(ids) == 0 && !all:
		return acted{}, refuse(http.StatusBadRequest, "there is no parked task %q, or no longer", id).hint("shell-operator parked list shows all")
	case len(ids) == 0:
		return acted{Message: "no parked tasks"}, nil
	}
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = fmt.Sprintf("parked task %s %s", id, done)
	}
	return acted{Count: len(ids), Message: strings.Join(lines, "\n")}, nil
}
