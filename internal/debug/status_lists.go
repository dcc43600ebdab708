package debug

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hookList and queueList are parts of the status as tables.
var (
	hookList = listOf("no hooks", refreshed,
		column[HookStatus]{name: "HOOK", cell: func(h *HookStatus, _ time.Time) string { return h.Name }},
		column[HookStatus]{name: "STATE", cell: func(h *HookStatus, _ time.Time) string { return h.State }},
		column[HookStatus]{name: "OBJECTS", cell: func(h *HookStatus, _ time.Time) string { return strconv.Itoa(h.Objects) }},
		column[HookStatus]{name: "LAST RUN", cell: last(func(r *runStatus, _ time.Time) string { return r.ID + " " + string(r.Status) })},
		column[HookStatus]{name: "AGO", aging: true, cell: last(func(r *runStatus, now time.Time) string { return since(r.Started, now) })},
		column[HookStatus]{name: "TOOK", wide: true, aging: true, cell: last(func(r *runStatus, _ time.Time) string { return r.Took.String() })},
		column[HookStatus]{name: "HOW IT ENDED", wide: true, cell: last(func(r *runStatus, _ time.Time) string { return cmp.Or(r.Exit, "-") })},
		column[HookStatus]{name: "LAST 60 MINUTES", wide: true, aging: true, cell: func(h *HookStatus, _ time.Time) string {
			if h.Minutes == nil {
				return "-"
			}
			runs, failures := h.Minutes.Sum()
			text := count(int(runs), "run")
			if failures > 0 {
				text += fmt.Sprintf(", %d failed", failures)
			}
			return text
		}},
		column[HookStatus]{name: "BINDINGS", cell: func(h *HookStatus, _ time.Time) string {
			var all []string
			for _, b := range h.Bindings {
				text := b.Name
				if b.About != "" {
					text += " (" + b.About + ")"
				}
				all = append(all, text)
			}
			return strings.Join(all, ", ")
		}},
	)
	queueList = listOf("no queues", refreshed,
		column[QueueStatus]{name: "QUEUE", cell: func(q *QueueStatus, _ time.Time) string { return q.Name }},
		column[QueueStatus]{name: "TASKS", cell: func(q *QueueStatus, _ time.Time) string { return strconv.Itoa(q.Tasks) }},
		column[QueueStatus]{name: "STATE", cell: func(q *QueueStatus, _ time.Time) string {
			state := cmp.Or(string(q.Phase), "idle")
			if q.Paused {
				state += ", paused"
			}
			return state
		}},
		column[QueueStatus]{name: "FAILURES", cell: func(q *QueueStatus, _ time.Time) string { return some(q.Failures) }},
		column[QueueStatus]{name: "NEXT ATTEMPT", aging: true, cell: func(q *QueueStatus, _ time.Time) string { return until(q.RetryIn) }},
		column[QueueStatus]{name: "LANES", wide: true, cell: func(q *QueueStatus, _ time.Time) string { return some(q.Lanes) }},
		column[QueueStatus]{name: "RUNNING", wide: true, cell: func(q *QueueStatus, _ time.Time) string { return some(q.Running) }},
		column[QueueStatus]{name: "DELAYED", wide: true, cell: func(q *QueueStatus, _ time.Time) string { return some(q.Delayed) }},
		column[QueueStatus]{name: "FIRST TASK", cell: func(q *QueueStatus, _ time.Time) string {
			if q.Head == "" && q.Requeues != nil {
				return q.Requeues.String()
			}
			return cmp.Or(q.Head, "-")
		}},
	)
)

// last is a cell about the last run of a hook, a dash without one.
func last(cell func(*runStatus, time.Time) string) func(*HookStatus, time.Time) string {
	return func(h *HookStatus, now time.Time) string {
		if h.Last == nil {
			return "-"
		}
		return cell(h.Last, now)
	}
}

// lists are routes to parts of the status.
func (a *API) lists() []Route {
	list := func(items func(*Status) any) func(request) (answer, error) {
		return func(request) (answer, error) {
			if _, err := a.o.Hooks.all(); err != nil {
				return answer{}, err
			}
			s := a.statusAt(time.Now())
			return answer{value: items(&s)}, nil
		}
	}
	return []Route{
		{Method: "GET", Path: "/hooks", About: "the hooks of the status, with state, last run and bindings",
			show: list(func(s *Status) any { return s.Hooks }), Command: &Command{
				Use: "hook", Short: "List hooks with state and last run", List: hookList,
				Long: "List hooks with their state, the objects that they see, their last run and their bindings.",
				Example: "  shell-operator hooks\n  shell-operator hooks -o wide\n  " +
					"shell-operator hooks -o json | jq '.[] | select(.state == \"failing\").name'",
			}},
		{Method: "GET", Path: "/queues", About: "the queues of the status, with state and first task",
			show: list(func(s *Status) any { return s.Queues }), Command: &Command{
				Use: "queue", Short: "List queues with state and first task", List: queueList,
				Long: "List queues with their tasks, state, failures, next attempt and first task. \"queue list\" shows all tasks, " +
					"\"why HOOK\" explains what a hook\nwaits for.",
				Example: "  shell-operator queues\n  shell-operator queues -w\n  shell-operator queues -o json | jq '.[] | select(.failures > 0)'",
			}},
	}
}
