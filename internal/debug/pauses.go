package debug

import (
	"fmt"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// pauser pauses queues and hooks.
type pauser interface {
	PauseQueue(queue string)
	ResumeQueue(queue string)
	PauseHook(hook string)
	ResumeHook(hook string)
	// PausedHooks are the names of paused hooks.
	PausedHooks() []string
}

type pauses struct {
	queues queueReader
	do     pauser
}

// PausesTopic pauses queues and hooks.
func PausesTopic(hooks *Hooks, queues queueReader, do pauser) Topic {
	t := &pauses{queues, do}
	return Topic{
		Routes: []Route{
			{Method: "POST", Path: "/queue/*/pause", About: "begin no run of the queue", act: onQueue(queues, 0, t.pauseQueue), Command: &Command{
				Use: "queue pause QUEUE", Short: "Begin no run of a queue until it is resumed", Args: ofOne, Takes: oneQueue,
				Long: `Begin no run of a queue until it is resumed. Runs in flight end, and events are queued. A pause survives a reload and ends
with the process. While "main" is paused, hooks that are added wait for their Synchronizations.`,
				Example: "  shell-operator queue pause main",
			}},
			{Method: "POST", Path: "/queue/*/resume", About: "end the pause of the queue", act: onQueue(queues, 0, t.resumeQueue), Command: &Command{
				Use: "queue resume QUEUE", Short: "End the pause of a queue", Example: "  shell-operator queue resume main", Args: ofOne,
				Takes: oneQueue,
			}},
			{Method: "POST", Path: "/hook/*/pause", About: "begin no run of the hook; requests are answered", act: onHook(hooks, t.pauseHook),
				Command: &Command{
					Use: "hook pause HOOK", Short: "Begin no run of a hook until it is resumed", Args: ofOne, Takes: oneHook,
					Long: `Begin no run of a hook until it is resumed. What waits for it is dropped, as if the hook was removed: events, parked tasks,
requeues. Its sets and finalizers stay, webhook and HTTP requests are answered. A pause survives a reload and ends with the process, or
when the hook is removed. Resumed, the hook starts as one that is added, with its onStartup run and its Synchronizations.`,
					Example: "  shell-operator hook pause pods.sh",
				}},
			{Method: "POST", Path: "/hook/*/resume", About: "end the pause of the hook", act: onHook(hooks, t.resumeHook), Command: &Command{
				Use: "hook resume HOOK", Short: "End the pause of a hook", Example: "  shell-operator hook resume pods.sh", Args: ofOne, Takes: oneHook,
			}},
		},
		Troubles: t.troubles,
	}
}

func (t *pauses) troubles() (all []Trouble) {
	for _, name := range t.do.PausedHooks() {
		all = append(all, Trouble{Kind: IsPaused, Hooks: []string{name}, Subject: name, Problem: "is paused",
			Hint: "shell-operator hook resume " + name, Notice: true})
	}
	for _, q := range t.queues.Queues(0) {
		if q.Paused {
			all = append(all, Trouble{Kind: IsPaused, Subject: fmt.Sprintf("queue %q", q.Name), Problem: "is paused with " + Count(q.Tasks, "task"),
				Hint: "shell-operator queue resume " + q.Name, Notice: true, Queue: q.Name})
		}
	}
	return all
}

// untilRestart is what users of pauses have to know.
const untilRestart = "; the pause survives a reload and ends with the process"

func (t *pauses) pauseQueue(r request, q Queue) (acted, error) {
	if !r.dryRun {
		t.do.PauseQueue(q.Name)
	}
	main := ""
	if q.Name == hook.MainQueue {
		main = "; Synchronizations of all hooks that are added wait, too"
	}
	return done(1, "queue %q is paused: runs in flight end, no other begins, events are queued%s%s", q.Name, main, untilRestart), nil
}

func (t *pauses) resumeQueue(r request, q Queue) (acted, error) {
	if !q.Paused {
		return done(0, "queue %q is not paused", q.Name), nil
	}
	if !r.dryRun {
		t.do.ResumeQueue(q.Name)
	}
	return done(1, "queue %q is resumed with %s", q.Name, Count(q.Tasks, "task")), nil
}

func (t *pauses) pauseHook(r request, h *hook.Hook) (acted, error) {
	if !r.dryRun {
		t.do.PauseHook(h.Name)
	}
	return done(1, "hook %q is paused: what waited for it is dropped; webhook and HTTP requests are answered%s", h.Name, untilRestart), nil
}

func (t *pauses) resumeHook(r request, h *hook.Hook) (acted, error) {
	if !slices.Contains(t.do.PausedHooks(), h.Name) {
		return done(0, "hook %q is not paused", h.Name), nil
	}
	if !r.dryRun {
		t.do.ResumeHook(h.Name)
	}
	return done(1, "hook %q is resumed: it starts again, with its Synchronizations", h.Name), nil
}
