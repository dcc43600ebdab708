package debug

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// HookList and queueList are parts of the status as tables.
var (
	HookList = listOf("no hooks", refreshed,
		column[hookStatus]{name: "HOOK", cell: func(h *hookStatus, _ time.Time) string { return h.Name }},
		column[hookStatus]{name: "STATE", cell: func(h *hookStatus, _ time.Time) string { return h.State }},
		column[hookStatus]{name: "OBJECTS", cell: func(h *hookStatus, _ time.Time) string { return strconv.Itoa(h.Objects) }},
		column[hookStatus]{name: "LAST RUN", cell: func(h *hookStatus, _ time.Time) string {
			if h.Last == nil {
				return "-"
			}
			return h.Last.ID + " " + string(h.Last.Status)
		}},
		column[hookStatus]{name: "AGO", aging: true, cell: func(h *hookStatus, now time.Time) string {
			if h.Last == nil {
				return "-"
			}
			return since(h.Last.Started, now)
		}},
		column[hookStatus]{name: "TOOK", wide: true, aging: true, cell: func(h *hookStatus, _ time.Time) string {
			if h.Last == nil {
				return "-"
			}
			return h.Last.Took.String()
		}},
		column[hookStatus]{name: "HOW IT ENDED", wide: true, cell: func(h *hookStatus, _ time.Time) string {
			if h.Last == nil {
				return "-"
			}
			return cmp.Or(h.Last.Exit, "-")
		}},
		column[hookStatus]{name: "LAST 60 MINUTES", wide: true, aging: true, cell: func(h *hookStatus, _ time.Time) string {
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
		column[hookStatus]{name: "BINDINGS", cell: func(h *hookStatus, _ time.Time) string {
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
		column[queueStatus]{name: "QUEUE", cell: func(q *queueStatus, _ time.Time) string { return q.Name }},
		column[queueStatus]{name: "TASKS", cell: func(q *queueStatus, _ time.Time) string { return strconv.Itoa(q.Tasks) }},
		column[queueStatus]{name: "STATE", cell: func(q *queueStatus, _ time.Time) string {
			state := cmp.Or(string(q.Phase), "idle")
			if q.Paused {
				state += ", paused"
			}
			return state
		}},
		column[queueStatus]{name: "FAILURES", cell: func(q *queueStatus, _ time.Time) string { return some(q.Failures) }},
		column[queueStatus]{name: "NEXT ATTEMPT", aging: true, cell: func(q *queueStatus, _ time.Time) string {
			if q.RetryIn == 0 {
				return "-"
			}
			return "in " + short(time.Duration(q.RetryIn))
		}},
		column[queueStatus]{name: "LANES", wide: true, cell: func(q *queueStatus, _ time.Time) string { return some(q.Lanes) }},
		column[queueStatus]{name: "RUNNING", wide: true, cell: func(q *queueStatus, _ time.Time) string { return some(q.Running) }},
		column[queueStatus]{name: "DELAYED", wide: true, cell: func(q *queueStatus, _ time.Time) string { return some(q.Delayed) }},
		column[queueStatus]{name: "FIRST TASK", cell: func(q *queueStatus, _ time.Time) string { return cmp.Or(q.Head, "-") }},
	)
)

// lists are routes to parts of the status.
func (a *API) lists() []Route {
	list := func(of *List, items func(*Status) any) func(request) (answer, error) {
		return func(r request) (answer, error) {
			if _, err := a.o.Hooks.all(); err != nil {
				return answer{}, err
			}
			now := time.Now()
			s := a.statusAt(now)
			return r.listed(of, items(&s), now)
		}
	}
	return []Route{
		{Method: "GET", Path: "/hooks", About: "the hooks of the status, with state, last run and bindings",
			show: list(HookList, func(s *Status) any { return s.Hooks }), Command: &Command{
				Use: "hook", Short: "List hooks with state and last run", List: HookList,
				Long: "List hooks with their state, the objects that they see, their last run and their bindings.",
				Example: "  shell-operator hooks\n  shell-operator hooks -o wide\n  " +
					"shell-operator hooks -o json | jq '.[] | select(.state == \"failing\").name'",
			}},
		{Method: "GET", Path: "/queues", About: "the queues of the status, with state and first task",
			show: list(queueList, func(s *Status) any { return s.Queues }), Command: &Command{
				Use: "queue", Short: "List queues with state and first task", List: queueList,
				Long: "List queues with their tasks, state, failures, next attempt and first task. \"queue list\" shows all tasks, " +
					"\"why HOOK\" explains what a hook\nwaits for.",
				Example: "  shell-operator queues\n  shell-operator queues -w\n  shell-operator queues -o json | jq '.[] | select(.failures > 0)'",
			}},
	}
}

// triggerable reports whether a binding, in JSON, can be triggered.
func triggerable(binding map[string]any) bool {
	kind, _ := binding["type"].(string)
	switch hook.Kind(kind) {
	case hook.OnStart, hook.OnKubernetes, hook.OnSchedule:
		return true
	}
	return false
}
