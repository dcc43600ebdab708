package debug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// fakeActions notes what is called.
type fakeActions struct {
	*fake
	calls []string
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
func (f *fakeActions) PauseQueue(queue string)     { f.note("pause %s", queue) }
func (f *fakeActions) ResumeQueue(queue string)    { f.note("resume %s", queue) }
func (f *fakeActions) PauseHook(hook string)       { f.note("pause hook %s", hook) }
func (f *fakeActions) ResumeHook(hook string)      { f.note("resume hook %s", hook) }
func (f *fakeActions) PausedHooks() []string       { return f.paused }
func (f *fakeActions) Read(string) ([]byte, error) { return nil, nil }
func (f *fakeActions) RecordAll(h *hook.Hook, until time.Time, dryRun bool) bool {
	return h.Name != "big.py" && (dryRun || f.note("record %s for %s", h.Name, time.Until(until).Round(time.Minute)))
}

func (f *fakeActions) Trigger(h *hook.Hook, a hook.Address) (string, error) {
	if h.Name == "big.py" {
		return "", errors.New("its Synchronization is switched off: x")
	}
	f.note("trigger %s %s", h.Name, h.At(a).Name)
	if h.At(a).Name == "pods" { // its initial objects are events
		return "", nil
	}
	return "42", nil
}
func (f *fakeActions) Parked(int) []pending.ParkedTask    { return f.parked }
func (f *fakeActions) LostParked() map[*hook.Hook]int     { return f.dropped }
func (f *fakeActions) RetryParked(ids ...string) []string { f.note("retry parked %s", ids); return ids }
func (f *fakeActions) DropParked(ids ...string) []string  { f.note("drop parked %s", ids); return ids }

func (f *fakeActions) release(_ context.Context, kind, namespace, name string, dryRun bool) ([]string, error) {
	if name == "other" {
		return nil, errors.New("there is none")
	}
	if !dryRun {
		f.note("release %s %s/%s", kind, namespace, name)
	}
	return []string{"example.com/f"}, nil
}

// fakeRecord is a record of finalizers.
type fakeRecord struct{ *fakeActions }

func (f fakeRecord) List(context.Context) ([]finalizer.Entry, error) { return f.entries, nil }
func (f fakeRecord) Other() string                                   { return f.other }
func (f fakeRecord) Claimer(context.Context, string) (string, error) { return "process pod/2", nil }
func (f fakeRecord) Orphans() []finalizer.Orphan                     { return f.orphans }
func (f fakeRecord) Remove(_ context.Context, name, instance string) (int, error) {
	f.note("remove %s of %s", name, instance)
	return 1, nil
}

// fakeSets are sets of objects.
type fakeSets struct{ *fakeActions }

func (f fakeSets) List(context.Context) ([]applyset.Set, error) { return slices.Clone(f.sets), nil }
func (f fakeSets) Count(context.Context, []applyset.Set)        {}
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
	task := Task{"HookRun:orders:kubernetes:big.py:cms", "big.py", "kubernetes", "cms", ""}
	op.queues = append(op.queues, Queue{Name: "orders", Length: 4, Phase: Running, Status: "run", Keyed: true, Concurrency: 8, Running: 1,
		Delayed: 1, Paused: true, Lanes: []Lane{
			{Key: "a", Length: 2, Phase: Sleeping, Left: 2 * time.Second, Failures: 3, LastError: "boom", Task: task},
			{Key: "b", Length: 1, Phase: Running, Failures: 1, Task: task}, {Key: "c", Length: 1, Phase: Waiting, Task: task},
			{Key: "Order/shop/blue", Length: 1, Phase: Idle, Task: Task{Hook: "other"}},
		}, LaneCount: 4, Left: 2 * time.Second, Failures: 3, LastError: "boom"})
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
		{ID: "pages-1", Name: "pages", Hook: "gone.sh", Owner: &applyset.SetOwner{Kind: "ConfigMap", Namespace: "default", Name: "a"},
			Members: 1},
		{ID: "pages-2", Name: "pages", Hook: "gone.sh", Owner: &applyset.SetOwner{Kind: "ConfigMap", Namespace: "default", Name: "b"},
			Members: 2},
		{ID: "web-3", Name: "web", Hook: "big.py", Members: 1},
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

func TestActions(t *testing.T) {
	for _, test := range []struct {
		path, form string
		status     int
		body, call string
	}{
		{"/queue/slow/retry", "", 200, `queue "slow": the next attempt of 1 task begins now`, `retry slow "" true`},
		{"/queue/slow/retry", "dryRun=true", 200, `dry run: queue "slow": the next attempt of 1 task`, ""},
		{"/queue/orders/retry", "key=a", 200, "1 task", `retry orders "a" false`},
		{"/queue/orders/retry", "key=b&dryRun=true", 200, "no task waits for its next attempt", ""},
		{"/queue/orders/retry", "dryRun=true", 200, "the next attempt of 1 task begins now", ""},
		{"/queue/orders/retry", "key=Order/shop/blew", 400,
			`queue "orders" has no task with the key "Order/shop/blew": did you mean Order/shop/blue?`, ""},
		{"/queue/orders/retry", "key=nope", 400, `queue "orders" has no task with the key "nope": shell-operator queue list shows the keys`, ""},
		{"/queue/orders/skip", "key=nope", 400, `queue "orders" has no task with the key "nope"`, ""},
		{"/queue/slow/retry", "key=nope", 400, `queue "slow" has no keys: leave --key out`, ""},
		{"/queue/spare/resume", "", 200, `queue "spare" is resumed with 0 tasks`, "resume spare"},
		{"/queue/nope/retry", "", 400, `there is no queue "nope": shell-operator queue list --show-empty shows all queues`, ""},
		{"/queue/slow/skip", "", 200, `queue "slow": T is dropped; the log has its contexts`, `skip slow ""`},
		{"/queue/slow/skip", "dryRun=true", 200, `queue "slow": task 17 HookRun:slow:kubernetes:big.py:cms is dropped`, ""},
		{"/queue/main/skip", "", 200, "has no failed task that could be skipped", ""},
		{"/queue/spare/skip", "", 200, "has no failed task that could be skipped", ""},
		{"/queue/orders/skip", "", 400, "is keyed: name the lane with --key", ""},
		{"/queue/orders/skip", "key=b", 200, "has no failed task that could be skipped", ""},
		{"/queue/orders/skip", "key=a", 200, "is dropped", `skip orders "a"`},
		{"/queue/slow/pause", "", 200, "ends with the process", "pause slow"},
		{"/queue/slow/pause.json", "dryRun=true", 200, `{"action":"queue/slow/pause","count":1,"dryRun":true,`, ""},
		{"/queue/main/pause", "", 200, "Synchronizations of all hooks that are added wait, too; the pause", "pause main"},
		{"/queue/main/pause", "dryRun=true", 200, "dry run: ", ""},
		{"/queue/slow/resume", "", 200, `queue "slow" is not paused`, ""},
		{"/queue/orders/resume", "", 200, `queue "orders" is resumed with 4 tasks`, "resume orders"},
		{"/hook/shop/watch.sh/pause", "", 200, "what waited for it is dropped", "pause hook shop/watch.sh"},
		{"/hook/nope/pause", "", 400, `there is no hook "nope"`, ""},
		{"/hook/tidy.sh/resume", "", 200, `hook "tidy.sh" is resumed`, "resume hook tidy.sh"},
		{"/hook/big.py/resume", "", 200, "is not paused", ""},
		{"/hook/shop/watch.sh/trigger", "", 400, "has 2 bindings: name one of pods, cms", ""},
		{"/hook/shop/watch.sh/trigger", "binding=x", 400, `has no binding "x": use one of pods, cms`, ""},
		{"/hook/shop/watch.sh/trigger", "binding=cms", 200, `task 42 is queued for binding "cms"`, "trigger shop/watch.sh cms"},
		{"/hook/shop/watch.sh/trigger", "binding=pods", 200,
			`hook "shop/watch.sh": an Added event of each object of binding "pods" is queued (shell-operator runs shop/watch.sh)`,
			"trigger shop/watch.sh pods"},
		{"/hook/shop/watch.sh/trigger", "binding=cms&dryRun=true", 200, "would be queued", ""},
		{"/hook/tidy.sh/trigger", "binding=every-night", 409, "is paused: shell-operator hook resume tidy.sh", ""},
		{"/hook/big.py/trigger", "", 409, "its Synchronization is switched off", ""},
		{"/hook/<b>ärger 100%25.sh/trigger", "", 400, "has no binding that can be triggered", ""},
		{"/hook/shop/watch.sh/record", "", 200, `hook "shop/watch.sh": all runs are recorded until `, "record shop/watch.sh for 10m0s"},
		{"/hook/shop/watch.sh/record", "for=2h", 200, "then shell-operator runs save RUN", "record shop/watch.sh for 2h0m0s"},
		{"/hook/shop/watch.sh/record", "for=2h&dryRun=true", 200, "dry run: ", ""},
		{"/hook/shop/watch.sh/record", "for=48h", 400, `"48h" is not a time to record: write for instance 10m, at most 24h0m0s`, ""},
		{"/hook/big.py/record", "", 409, `nothing is recorded of hook "big.py": --record or its settings.record is none`, ""},
		{"/parked/retry", "id=p1", 200, `parked task p1 of big.py, queue "orders", key "e", parked at 2`, "retry parked [p1]"},
		{"/parked/drop", "all=true", 200, "Z, is dropped; the log has its contexts\nparked task p2 of big.py",
			"drop parked [p1 p2]"},
		{"/parked/drop", "all=true&dryRun=true", 200, "parked task p2", ""},
		{"/parked/drop", "", 400, "name the parked tasks in one way", ""},
		{"/parked/drop", "id=p1&all=true", 400, "in one way: by their ids, by --hook and --queue, or --all", ""},
		{"/parked/drop", "id=p1&hook=big.py", 400, "in one way", ""},
		{"/parked/drop", "queue=orders&all=true", 400, "in one way", ""},
		{"/parked/retry", "id=p2&id=p1", 200, "Z, is queued again\nparked task p2 of big.py", "retry parked [p1 p2]"},
		{"/parked/retry", "id=p1&id=p9", 400, `there is no parked task "p9"`, ""},
		{"/parked/retry", "hook=big.py&queue=orders", 200, "parked task p2 of big.py", "retry parked [p1 p2]"},
		{"/parked/drop", "hook=big.py&dryRun=true", 200, "dry run: parked task p1 of big.py", ""},
		{"/parked/drop", "hook=nope", 400, `there is no parked task of hook "nope": shell-operator parked shows all`, ""},
		{"/parked/drop", "hook=big.py&queue=slow", 400, `there is no parked task of hook "big.py" in queue "slow"`, ""},
		{"/finalizers/remove", "name=example.com/gone", 409, "the finalizer example.com/gone would be removed from all objects of 1 resource, " +
			"without a run of its hook; the installation shop.operator was claimed last by process pod/2: use --yes", ""},
		{"/finalizers/remove", "name=example.com/gone&yes=true", 200,
			"the finalizer example.com/gone of installation shop.operator is removed from all objects of 1 resource; it was " +
				"claimed last by process pod/2",
			"remove example.com/gone of shop.operator"},
		{"/finalizers/remove", "name=example.com/gone&dryRun=true", 200, "dry run: the finalizer", ""},
		{"/finalizers/remove", "name=example.com/active&yes=true", 409, "is in use by hook", ""},
		{"/finalizers/remove", "name=example.com/active&instance=shop.operator&yes=true", 409, "is in use by hook", ""},
		{"/finalizers/remove", "name=example.com/active&instance=other.operator&yes=true", 200, "of installation other.operator",
			"remove example.com/active of other.operator"},
		{"/finalizers/remove", "name=example.com/none", 400,
			`the record has no finalizer "example.com/none" of that installation: shell-operator finalizers list shows all`, ""},
		{"/finalizers/remove", "kind=Database&object=shop/orders", 200, "Database shop/orders has lost example.com/f; no hook ran for that",
			"release Database shop/orders"},
		{"/finalizers/remove", "kind=Node&object=one&dryRun=true", 200, "dry run: Node one has lost example.com/f; no hook ran for that", ""},
		{"/finalizers/remove", "kind=Node&object=other&dryRun=true", 409, "there is none", ""},
		{"/finalizers/remove", "kind=Node&object=other", 409, "there is none", ""},
		{"/sets/delete", "set=gone.sh/pages", 400, `2 sets are called "gone.sh/pages": name one by its id`, ""},
		{"/sets/delete", "set=pages-2", 200, "set pages-2 is deleted with 2 objects; 1 object released and kept", "delete set pages-2"},
		{"/sets/delete", "hook=gone.sh&dryRun=true", 200,
			"dry run: set pages-1 is deleted with 1 object; 1 object released and kept\nset pages-2", ""},
		{"/sets/delete", "set=web", 409, "is active: remove the hook first, or use --force", ""},
		{"/sets/delete", "set=web&force=true", 200, "set web-3 is deleted", "delete set web-3"},
		{"/sets/delete", "set=none", 400, `there is no set "none": shell-operator sets list shows all`, ""},
		{"/sets/delete", "hook=none", 400, `there is no set of a hook "none"`, ""},
		{"/sets/adopt", "hook=gone.sh&toHook=big.py", 200,
			"set pages-1 is moved to pages-9, set \"pages\" of hook \"big.py\", with 2 objects\nset pages-2",
			"adopt set pages-1 as big.py/pages false adopt set pages-2 as big.py/pages false"},
		{"/sets/adopt", "set=pages&toHook=big.py&toSet=w&dryRun=true", 200,
			"dry run: set pages-1 is moved to w-9, set \"w\" of hook \"big.py\", with 2 objects\nset pages-2", ""},
		{"/sets/adopt", "set=pages&toSet=taken", 409,
			"set pages-1 is moved to taken-9, set \"taken\" of hook \"gone.sh\", with 2 objects; it is taken",
			"adopt set pages-1 as gone.sh/taken false"},
		{"/sets/adopt", "set=web&toSet=w", 200, "set web-3 is moved to w-9", "adopt set web-3 as big.py/w false"},
		{"/sets/adopt", "set=web&toHook=tidy.sh", 409, `the hook "big.py" of set web-3 is active: remove the hook first, or use --force`, ""},
		{"/sets/adopt", "set=web&toHook=tidy.sh&force=true", 200, "set web-3 is moved", "adopt set web-3 as tidy.sh/web true"},
		{"/sets/adopt", "hook=gone.sh&toHook=none", 409,
			`the operator has no hook "none" that could get the sets: add the hook first, or use --force`, ""},
		{"/sets/adopt", "set=none&toHook=big.py", 400, `there is no set "none"`, ""},
		{"/finalizers/remove", "kind=Node", 400, "name the object as NAMESPACE/NAME", ""},
		{"/parked/retry", "id=p9", 400, `there is no parked task "p9", or no longer: shell-operator parked shows all`, ""},
	} {
		t.Run(test.path+" "+test.form, func(t *testing.T) {
			var log bytes.Buffer
			o := operate(busyOperator())
			o.log = slog.New(slog.NewTextHandler(&log, nil))
			u := &url.URL{Path: test.path}
			if decoded, err := url.PathUnescape(test.path); err == nil {
				u.Path = decoded
			}
			req := httptest.NewRequest("POST", "http://operator"+u.EscapedPath(), strings.NewReader(test.form))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res := httptest.NewRecorder()
			o.api().ServeHTTP(res, req.WithContext(withCaller(req.Context(), client{uid: "1234"})))
			text := res.Body.String()
			if err := (&Problem{}); res.Code >= 400 && errors.As(refusalOf(res.Code, res.Body.Bytes()), &err) {
				text = err.text + ": " + err.hint
			}
			if res.Code != test.status || !strings.Contains(text, test.body) {
				t.Errorf("%d %s", res.Code, text)
			}
			if calls := strings.Join(o.do.calls, " "); calls != test.call {
				t.Errorf("calls %q, want %q", calls, test.call)
			}
			if logged := strings.Contains(log.String(), `msg="A command has changed the operator"`) &&
				strings.Contains(log.String(), "uid=1234"); logged != (test.call != "") {
				t.Errorf("logged %t: %s", logged, log.String())
			}
		})
	}
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

func TestParkedAndPauses(t *testing.T) {
	api := operate(busyOperator()).api()
	for path, want := range map[string]string{
		"/queue/list": "Queue 'spare': length 0, status: 'paused'",
		"/hook/gone.sh/why": "gone.sh: gone\n- 3 objects of databases keep the finalizer example.com/gone, and its hook or binding is " +
			"gone: they cannot be deleted\n  bring the hook back, or shell-operator finalizers remove --yes example.com/gone\n" +
			"- its hook is gone, and 2 sets of objects left: pages-1, pages-2\n  bring the hook back, or shell-operator sets adopt or delete " +
			"--hook gone.sh\n",
		"/sets/web": "web-3  set \"web\" of hook \"big.py\": 1 object\n  ConfigMap a/b: drifted, changed by x\n  PersistentVolumeClaim " +
			"a/c: unknown, not deleted with the set\n",
		"/hook/big.py/why": "- queue \"orders\", key \"a\": HookRun:orders:kubernetes:big.py:cms has failed 3 times, the next attempt is in " +
			"2s: boom\n",
	} {
		if got := ask(api, "GET", path, nil).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	for _, want := range []string{"1 run in flight, of 8 at most", "1 lane wait for a free place, of 4 in all", "parked task p2  big.py"} {
		if got := ask(api, "GET", "/hook/big.py/why", nil).Body.String(); !strings.Contains(got, want) {
			t.Errorf("why: %s\nwant %s", got, want)
		}
	}
	if got := ask(api, "GET", "/status.json", nil).Body.String(); !strings.Contains(got, `{"name":"tidy.sh","state":"paused"`) {
		t.Errorf("status: %s", got)
	}
	page := httptest.NewRecorder()
	operate(busyOperator()).page().ServeHTTP(page, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{
		"is paused with 4 tasks", "is paused with 0 tasks", `<td class="number">4</td><td class="number">1</td><td class="number">1</td>`,
		`<td class="number">3</td><td>in 2s</td>`, `<span class="state paused">paused</span>`,
		`<span class="state running">running, paused</span>`,
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("%s is missing in %s", want, page.Body)
		}
	}
	if got := ask(api, "GET", "/hook/tidy.sh/why", nil).Body.String(); !strings.Contains(got,
		"tidy.sh: paused\n- the hook is paused\n  shell-operator hook resume tidy.sh\n") {
		t.Errorf("why: %s", got)
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
	op.queues[1].Tasks[0].ID = "18"
	if after := would("/queue/slow/skip", ""); after == skip {
		t.Errorf("another failed task: %s", after)
	}
}
