package debug

import (
	"cmp"
	"strings"
	"time"
)

// Cells are those of the hook in a list.
func (h *HookStatus) Cells() []Cell {
	var bindings []string
	for _, b := range h.Bindings {
		if b.About != "" {
			b.Name += " (" + b.About + ")"
		}
		bindings = append(bindings, b.Name)
	}
	var last runStatus
	var took any
	if h.Last != nil {
		last, took = *h.Last, h.Last.Took
	}
	return []Cell{
		asHook.of("HOOK", h.Name), asState.of("STATE", h.State), asNumber.of("OBJECTS", h.Objects),
		asRun.of("LAST RUN", strings.TrimSpace(last.ID+" "+string(last.Status))), asAge.of("AGO", last.Started),
		asTook.wide("TOOK", took), asText.wide("HOW IT ENDED", last.Exit), asMinutes.wide("LAST 60 MINUTES", h.Minutes),
		asText.of("BINDINGS", strings.Join(bindings, ", ")),
	}
}

// Cells are those of the queue in a list.
func (q *QueueStatus) Cells() []Cell {
	state, next := cmp.Or(string(q.Phase), "idle"), q.Head
	if q.Paused {
		state += ", paused"
	}
	if next == "" && q.Requeues != nil {
		next = q.Requeues.String()
	}
	return []Cell{
		asQueue.of("QUEUE", q.Name), asNumber.of("TASKS", q.Tasks), asState.of("STATE", state), asNumber.of("FAILURES", some(q.Failures)),
		asLeft.of("NEXT ATTEMPT", q.RetryIn), asNumber.wide("LANES", some(q.Lanes)), asNumber.wide("RUNNING", some(q.Running)),
		asNumber.wide("DELAYED", some(q.Delayed)), asText.of("FIRST TASK", next),
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
				Use: "hook", Short: "List hooks with state and last run", List: listOf[HookStatus]("hooks", refreshed),
				Long: "List hooks with their state, the objects that they see, their last run and their bindings.",
				Example: "  shell-operator hooks\n  shell-operator hooks -o wide\n  " +
					"shell-operator hooks -o json | jq '.[] | select(.state == \"failing\").name'",
			}},
		{Method: "GET", Path: "/queues", About: "the queues of the status, with state and first task",
			show: list(func(s *Status) any { return s.Queues }), Command: &Command{
				Use: "queue", Short: "List queues with state and first task", List: listOf[QueueStatus]("queues", refreshed),
				Long: "List queues with their tasks, state, failures, next attempt and first task. \"queue list\" shows all tasks, " +
					"\"why HOOK\" explains what a hook\nwaits for.",
				Example: "  shell-operator queues\n  shell-operator queues -w\n  shell-operator queues -o json | jq '.[] | select(.failures > 0)'",
			}},
	}
}
