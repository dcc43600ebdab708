package debug

import (
	"cmp"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/worker"
)

func (h *HookStatus) cells() []Cell {
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
		asTook.hidden("TOOK", took), asText.hidden("HOW IT ENDED", last.Exit), asText.of("BINDINGS", strings.Join(bindings, ", ")),
	}
}

// State is the phase in words.
func (q *Queue) State() string {
	state := cmp.Or(string(q.Phase), "idle")
	if q.Paused {
		state += ", paused"
	}
	return state
}

func (q *Queue) cells() []Cell {
	next, lasts := q.Head, any(nil)
	if q.Tasks > 0 {
		lasts = q.For
	}
	if q.Requeues != nil {
		next = strings.TrimPrefix(next+"; "+q.Requeues.String(), "; ")
	}
	return []Cell{
		asQueue.of("QUEUE", q.Name), asNumber.of("TASKS", q.Tasks), asState.of("STATE", q.State()), asNumber.of("FAILURES", some(q.Failures)),
		asLeft.of("NEXT ATTEMPT", q.RetryIn), asAge.wide("FOR", lasts), asNumber.wide("LANES", some(q.Lanes)),
		asNumber.wide("RUNNING", some(q.Running)), asNumber.wide("DELAYED", some(q.Delayed)), asText.of("FIRST TASK", next),
	}
}

// bindingRow is a binding of a hook in a list.
type bindingRow struct {
	hook string
	bindingStatus
}

func (b *bindingRow) cells() []Cell {
	var objects any
	if b.Objects != nil {
		objects = *b.Objects
	}
	var can []Action
	if triggerable(hook.Kind(b.Type)) {
		can = []Action{acts("hook/trigger", "name", b.hook, "binding", b.Name)}
	}
	return []Cell{asText.of("BINDING", b.Name), asHook.of("HOOK", b.hook), asText.of("TYPE", b.Type), asText.of("WATCHES", b.About),
		asNumber.of("OBJECTS", objects), asQueue.of("QUEUE", b.Queue), asState.of("STATE", b.State), asActions.of("ACTIONS", can)}
}

// workerRow is a worker of a hook in a list.
type workerRow struct {
	hook string
	worker.Status
}

func (w *workerRow) cells() []Cell {
	serves := "events"
	if w.Client {
		serves = "requests"
	}
	return []Cell{asNumber.of("WORKER", w.Number), asHook.of("HOOK", w.hook), asText.of("SERVES", serves), asState.of("STATE", w.Phase),
		asNumber.of("PID", some(w.PID)), asAge.of("STARTED", w.Started), asNumber.of("RUNS", w.Runs)}
}

func (r *runStatus) cells() []Cell {
	return []Cell{asRun.of("RUN", r.ID), asHook.of("HOOK", r.Hook), asAge.of("AGO", r.Started), asNumber.of("ATTEMPT", r.Attempt),
		asTook.of("TOOK", r.Took), asFault.of("HOW IT ENDED", r.Exit)}
}

// HookTable and those below are parts of the status as rows.
func (s *Status) HookTable() Table    { return TableOf("hooks", s.Hooks, (*HookStatus).cells) }
func (s *Status) QueueTable() Table   { return TableOf("queues", s.Queues, (*Queue).cells) }
func (s *Status) FailureTable() Table { return TableOf("failed runs", s.Failures, (*runStatus).cells) }
func (s *Status) BindingTable() Table {
	var rows []bindingRow
	for _, h := range s.Hooks {
		for _, b := range h.Bindings {
			rows = append(rows, bindingRow{h.Name, b})
		}
	}
	return TableOf("bindings", rows, (*bindingRow).cells)
}

// WorkerTable has the workers of all hooks.
func (s *Status) WorkerTable() Table {
	var rows []workerRow
	for _, h := range s.Hooks {
		for _, w := range h.Workers {
			rows = append(rows, workerRow{h.Name, w})
		}
	}
	return TableOf("workers", rows, (*workerRow).cells)
}

// lists are routes to parts of the status.
func (a *API) lists() []Route {
	list := func(items func(*Status) any) func(request) (answer, error) {
		return func(request) (answer, error) {
			if _, err := a.o.Hooks.all(); err != nil {
				return answer{}, err
			}
			s := a.statusAt(time.Now(), true)
			return answer{value: items(&s)}, nil
		}
	}
	return []Route{
		{Method: "GET", Path: "/hooks", About: "the hooks of the status, with state, last run and bindings",
			show: list(func(s *Status) any { return s.Hooks }), Command: &Command{
				Use: "hook", Short: "List hooks with state and last run", List: listOf("hooks", refreshed, (*HookStatus).cells),
				Long: "List hooks with their state, the objects that they see, their last run and their bindings.",
				Example: "  shell-operator hooks\n  shell-operator hooks -o wide\n  " +
					"shell-operator hooks -o json | jq '.[] | select(.state == \"failing\").name'",
			}},
		{Method: "GET", Path: "/queues", About: "the queues of the status, with state and first task",
			show: list(func(s *Status) any { return s.Queues }), Command: &Command{
				Use: "queue", Short: "List queues with state and first task", List: listOf("queues", refreshed, (*Queue).cells),
				Long: "List queues with their tasks, state, failures, next attempt and first task. \"queue list\" shows all tasks, " +
					"\"why HOOK\" explains what a hook\nwaits for.",
				Example: "  shell-operator queues\n  shell-operator queues -w\n  shell-operator queues -o json | jq '.[] | select(.failures > 0)'",
			}},
	}
}
