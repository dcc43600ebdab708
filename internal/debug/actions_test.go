package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// fakeActions notes what is called.
type fakeActions struct {
	*fake
	calls []string
	// last and applying are about StopRun.
	last     string
	applying bool
}

func (f *fakeActions) note(format string, args ...any) bool {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return true
}

func (f *fakeActions) RetryQueue(queue, key string, all bool) int {
	f.note("retry %s %q %t", queue, key, all)
	return 1
}

// named is a task of a queue.
type named struct{ queue.Task }

func (named) String() string { return "T" }

func (f *fakeActions) SkipTask(name, key string) (queue.Failed, bool) {
	return queue.Failed{Task: named{}}, f.note("skip %s %q", name, key)
}
func (f *fakeActions) StopRun(id string, dryRun bool) (last string, delay time.Duration, ok bool) {
	return f.last, 5 * time.Second, !f.applying && (dryRun || f.note("stop %s", id))
}
func (f *fakeActions) PauseQueue(queue string)     { f.note("pause %s", queue) }
func (f *fakeActions) ResumeQueue(queue string)    { f.note("resume %s", queue) }
func (f *fakeActions) PauseHook(hook string)       { f.note("pause hook %s", hook) }
func (f *fakeActions) ResumeHook(hook string)      { f.note("resume hook %s", hook) }
func (f *fakeActions) PausedHooks() []string       { return f.paused }
func (f *fakeActions) Read(string) ([]byte, error) { return nil, nil }
func (f *fakeActions) RecordAll(h *hook.Hook, until time.Time, dryRun bool) bool {
	return h.Name != "big.py" && (dryRun || f.note("record %s for %s", h.Name, time.Until(until).Round(time.Minute)))
}

func (f *fakeActions) Trigger(h *hook.Hook, a hook.Address, dryRun bool) (string, error) {
	if slices.Contains(f.paused, h.Name) {
		return "", lifecycle.ErrPaused
	}
	if dryRun {
		return "", nil
	}
	if h.Name == "big.py" {
		return "", errors.New("its Synchronization is switched off: x")
	}
	f.note("trigger %s %s", h.Name, h.At(a).Name)
	if h.At(a).Name == "pods" { // its initial objects are events
		return "", nil
	}
	return "42", nil
}
func (f *fakeActions) TriggerObject(h *hook.Hook, index int, namespace, name string, dryRun bool) error {
	if name == "unseen" {
		return lifecycle.ErrNoObject
	}
	_ = dryRun || f.note("trigger %s %s of %s/%s", h.Name, h.Kubernetes[index].Name, namespace, name)
	return nil
}
func (f *fakeActions) Parked(int) []pending.ParkedTask    { return f.parked }
func (f *fakeActions) LostParked() map[*hook.Hook]int     { return f.dropped }
func (f *fakeActions) RetryParked(ids ...string) []string { f.note("retry parked %s", ids); return ids }
func (f *fakeActions) DropParked(ids ...string) []string  { f.note("drop parked %s", ids); return ids }

// fakeRecord is a record of finalizers.
type fakeRecord struct{ *fakeActions }

func (f fakeRecord) List(context.Context) ([]finalizer.Entry, error) { return f.entries, nil }
func (f fakeRecord) Orphans() []finalizer.Orphan                     { return f.orphans }
func (f fakeRecord) Remove(_ context.Context, name, instance string) (int, int, error) {
	f.note("remove %s of %s", name, instance)
	return 1, 3 * strings.Count(name, "active"), nil
}

// fakeSets are sets of objects.
type fakeSets struct{ *fakeActions }

func (f fakeSets) List(context.Context) ([]applyset.Set, error) { return slices.Clone(f.sets), nil }
func (f fakeSets) Show(context.Context, *slog.Logger, string) ([]applyset.MemberState, error) {
	return f.members, nil
}

func (f fakeSets) Delete(_ context.Context, _ *slog.Logger, id string) (int, int, error) {
	f.note("delete set %s", id)
	return 2, 1, nil
}

func (f fakeSets) Adopt(_ context.Context, _ *slog.Logger, id string, to applyset.Move) (string, int, error) {
	if id == "pages-2" && to.Name == "taken" {
		return "", 0, errors.New("it is taken")
	}
	if !to.Check {
		f.note("adopt set %s as %s/%s %t", id, to.Hook, to.Name, to.Join)
	}
	return to.Name + "-9", 2, nil
}

// busyOperator has a keyed queue, pauses and parked tasks.
func busyOperator() *fake {
	op := theOperator()
	task := Task{"big.py", "kubernetes", "cms", "HookRun:orders:kubernetes:big.py:cms", ""}
	op.queues = append(op.queues, Queue{Name: "orders", Tasks: 4, Phase: queue.Running, Status: "run", Keyed: true, Concurrency: 8, Running: 1,
		Delayed: 1, Paused: true, FirstLanes: []Lane{
			{Key: "a", Tasks: 2, Phase: queue.Sleeping, RetryIn: history.Duration(2 * time.Second), Failures: 3, Error: "boom", Task: task},
			{Key: "b", Tasks: 1, Phase: queue.Running, Failures: 1, Task: task}, {Key: "c", Tasks: 1, Phase: queue.Waiting, Task: task},
			{Key: "Order/shop/blue", Tasks: 1, Phase: queue.Idle, Task: Task{Hook: "other"}},
		}, Lanes: 4, RetryIn: history.Duration(2 * time.Second), Failures: 3, Head: task.Head()})
	op.queues[2].Paused, op.queues[2].Status = true, "paused"
	op.hooks[0].Kubernetes[0].Finalizer = "example.com/active"
	gone := finalizer.Entry{Finalizer: "example.com/gone", Resource: "databases", Instance: "shop.operator", Hook: "gone.sh", Binding: "dbs"}
	op.entries = []finalizer.Entry{
		gone,
		{Finalizer: "example.com/active", Resource: "pods", Instance: "shop.operator", Hook: op.hooks[0].Name, Binding: "pods"},
		{Finalizer: "example.com/active", Resource: "pods", Instance: "other.operator", Hook: "h", Binding: "pods"},
	}
	op.orphans = []finalizer.Orphan{{Entry: gone, Objects: 3}}
	op.sets = []applyset.Set{
		{ID: "pages-1", Name: "pages", Hook: "gone.sh", Owner: &applyset.SetOwner{Kind: "ConfigMap", Namespace: "default", Name: "a"}},
		{ID: "pages-2", Name: "pages", Hook: "gone.sh", Owner: &applyset.SetOwner{Kind: "ConfigMap", Namespace: "default", Name: "b"}},
		{ID: "web-3", Name: "web", Hook: "big.py"},
	}
	op.lost = op.sets[:2]
	op.members = []applyset.MemberState{
		{Kind: "ConfigMap", Namespace: "a", Name: "b", State: applyset.Drifted, Reason: "changed by x"},
		{Kind: "PersistentVolumeClaim", Namespace: "a", Name: "c", State: applyset.Unknown, Kept: true},
	}
	op.paused = []string{"tidy.sh"}
	since := time.Now().Add(-time.Hour)
	big := op.hooks[1]
	changed := event.Event{Type: event.Change, Hook: big, Watch: event.Modified, Object: event.Object{Namespace: "a", Name: "d"}}
	op.parked = []pending.ParkedTask{
		{ID: "p1", Hook: big, Queue: "orders", Key: "e", Contexts: 1, Attempts: 10, Since: since, Error: "no", GaveUp: true,
			Events: []event.Event{changed}},
		{ID: "p2", Hook: big, Queue: "orders", Key: "d", Contexts: 2, Attempts: 10, Since: since, Error: "exit\nstatus 1",
			Events: []event.Event{changed}},
	}
	return op
}

// TestActions runs testdata/actions.txt, each block with a new operator. A command is a path and its form; below the dashes are the status,
// the answer, and what the operator was called to do. What it was called to do is in the log, and nothing else.
func TestActions(t *testing.T) {
	golden.Scripts(t, "testdata/actions.txt", func(t *testing.T, script string) (played string) {
		synctest.Test(t, func(t *testing.T) {
			var outcome strings.Builder
			played = golden.Blocks(script, func(words []string) {
				var log bytes.Buffer
				o := operate(busyOperator())
				o.log = slog.New(slog.NewTextHandler(&log, nil))
				form, err := url.ParseQuery(strings.Join(words[1:], ""))
				if err != nil {
					t.Fatal(err)
				}
				res := ask(fromSocket(o.api()), "POST", words[0], form)
				text := res.Body.String()
				if err := (&Problem{}); res.Code >= 400 && errors.As(refusalOf(res.Code, res.Body.Bytes()), &err) {
					text = err.Text + ": " + err.Next
				}
				fmt.Fprintf(&outcome, "%d %s\n", res.Code, strings.TrimSpace(text))
				for _, call := range o.do.calls {
					fmt.Fprintln(&outcome, "called:", call)
				}
				if logged := strings.Contains(log.String(), `msg="A command has changed the operator"`) &&
					strings.Contains(log.String(), "uid=1234"); logged != (len(o.do.calls) > 0) {
					t.Errorf("%q: logged %t: %s", words, logged, log.String())
				}
			}, func() string {
				defer outcome.Reset()
				return outcome.String()
			})
		})
		return played
	})
}

// The socket identifies the caller; over TCP nothing can be changed.
func TestActionsAreForTheSocket(t *testing.T) {
	var log bytes.Buffer
	o := operate(busyOperator())
	o.log = slog.New(slog.NewTextHandler(&log, nil))
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	s, end := serve(t, ServerOptions{API: o.api(), Place: place, TCP: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	for path := range map[string]bool{"/queue/slow/retry": true, "/hook/big.py/trigger": true, "/parked/drop": true} {
		res, err := http.Post("http://"+s.served[1].listener.Addr().String()+path, "application/x-www-form-urlencoded", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s over TCP: %s", path, res.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	body, err := NewClient(place, time.Minute).Post(t.Context(), "/queue/slow/pause", url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	end()
	if len(o.do.calls) != 1 || !strings.Contains(log.String(), "uid="+strconv.Itoa(os.Getuid())) {
		t.Errorf("calls %v, log %s", o.do.calls, log.String())
	}
}

// TestDryRunNamesTheTask: a person who has seen what an action would do is not served by the same text about another task, as after a
// restart, when ids begin again.
func TestDryRunNamesTheTask(t *testing.T) {
	op := busyOperator()
	api := operate(op).api()
	would := func(path, form string) string {
		t.Helper()
		fields, _ := url.ParseQuery(form)
		fields.Set("dryRun", "true")
		res := ask(fromSocket(api), "POST", path, fields)
		if res.Code != http.StatusOK {
			t.Fatalf("%s: %s", path, res.Body)
		}
		return res.Body.String()
	}
	retry, skip := would("/parked/retry", "id=p1"), would("/queue/slow/skip", "")
	if again := would("/parked/retry", "id=p1"); again != retry {
		t.Errorf("the same task: %s%s", retry, again)
	}
	op.parked[0].Since = op.parked[0].Since.Add(time.Minute)
	if after := would("/parked/retry", "id=p1"); after == retry {
		t.Errorf("another parked task: %s", after)
	}
	op.queues[1].FirstLanes[0].ID = "18"
	if after := would("/queue/slow/skip", ""); after == skip {
		t.Errorf("another failed task: %s", after)
	}
}
