package debug

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestHangingRuns compares status, why and runs stop of each case with testdata/hanging.golden.
func TestHangingRuns(t *testing.T) {
	keyed := func(running, concurrency int, lanes ...Lane) Queue {
		q := Queue{Name: "q", Keyed: true, Concurrency: concurrency, Running: running, FirstLanes: lanes, Phase: queue.Running}
		for _, l := range lanes {
			q.Tasks += l.Tasks
		}
		return q
	}
	busy, idle := Lane{Key: "a", Tasks: 1, Phase: queue.Running}, Lane{Key: "b", Tasks: 1}
	task := Task{"a.sh", "kubernetes", "pods", "d", "7"}
	fifoOf := func(n int) Queue { return fifo("q", "", Lane{Phase: queue.Running}, []Task{task, task, task}[:n]...) }
	var all strings.Builder
	for _, row := range []struct {
		name          string
		usual, passed time.Duration
		queue         Queue
		run           history.Run
		set           func(*operator, *history.Record)
	}{
		{name: "below a minute", passed: 59 * time.Second, queue: fifoOf(3)},
		{name: "no run has succeeded yet", passed: 61 * time.Second, queue: fifoOf(3)},
		{name: "nothing waits", passed: time.Hour, queue: fifoOf(1)},
		{name: "three times as long is usual", usual: 30 * time.Second, passed: 90 * time.Second, queue: fifoOf(2)},
		{name: "longer than usual", usual: 30 * time.Second, passed: 91 * time.Second, queue: fifoOf(2)},
		{name: "its lane", passed: time.Hour, queue: keyed(1, 8, Lane{Key: "a", Tasks: 3, Phase: queue.Running}), run: history.Run{Key: "a"}},
		{name: "other lanes run", passed: time.Hour, queue: keyed(1, 2, busy, idle), run: history.Run{Key: "a"}},
		{name: "no place is free", passed: time.Hour, queue: keyed(1, 1, busy, idle), run: history.Run{Key: "a"}},
		{name: "it applies operations", passed: time.Hour, queue: fifoOf(2),
			set: func(o *operator, r *history.Record) { r.Processed(); o.do.applying = true }},
		{name: "the last attempt", passed: time.Hour, queue: fifoOf(2),
			set: func(o *operator, _ *history.Record) { o.do.last = "it was the last attempt: its contexts are parked" }},
		{name: "it has ended", passed: time.Hour, queue: fifoOf(2),
			set: func(_ *operator, r *history.Record) {
				r.End(history.Outcome{Status: history.Succeeded, Exit: "exit status 0"})
			}},
		{name: "its hook was removed", passed: time.Second, queue: fifoOf(2),
			set: func(o *operator, _ *history.Record) { o.hooks = []*hook.Hook{} }},
		{name: "its hook was removed, and it hangs", passed: time.Hour, queue: fifoOf(2),
			set: func(o *operator, _ *history.Record) { o.hooks = []*hook.Hook{} }},
		{name: "a review", passed: time.Hour, queue: Queue{Name: "q"}, run: history.Run{Event: "kubernetesValidating"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := operate(&fake{hooks: []*hook.Hook{{Name: "a.sh"}}, queues: []Queue{row.queue},
				progress: map[string]Progress{"a.sh": {StartedUp: true}}})
			if row.usual > 0 {
				before := o.history.Begin(history.Run{Task: "1", Attempt: 1, Hook: "a.sh", Queue: "q"})
				before.End(history.Outcome{Status: history.Succeeded, Took: history.Duration(row.usual)})
			}
			r := row.run
			r.Task, r.Attempt, r.Hook, r.Why, r.Events = "7", 2, "a.sh", []string{"Added shop/web (pods)"}, 1
			if r.Event == "" {
				r.Queue = "q"
			}
			record := o.history.Begin(r)
			record.Started(4711)
			time.Sleep(row.passed)
			if row.set != nil {
				row.set(o, record)
			}
			api := o.api()
			s := api.statusAt(time.Now(), false)
			fmt.Fprintf(&all, "# %s\nhealthy: %t\n", row.name, s.Healthy)
			for _, x := range s.Troubles {
				fmt.Fprintf(&all, "%s\nnotice: %t, since %s ago, %v, /readyz: %s\n", x.String(), x.Notice, time.Since(x.Since), x.Actions(), x.Note())
			}
			fmt.Fprintf(&all, "%s", ask(api, "GET", "/hook/a.sh/why", nil).Body)
			for _, form := range []url.Values{{"dryRun": {"true"}}, {}} {
				fmt.Fprintf(&all, "%s\n", strings.TrimSpace(ask(fromSocket(api), "POST", "/run/7-2/stop", form).Body.String()))
			}
			fmt.Fprintf(&all, "called: %v\n\n", o.do.calls)
		})
	}
	golden.Compare(t, "testdata/hanging.golden", all.String())
}
