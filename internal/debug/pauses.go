package debug

import (
	"fmt"
	"slices"
	"time"

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
	hooks  *Hooks
	queues queueReader
	do     pauser
}

// PausesTopic pauses queues and hooks.
func PausesTopic(hooks *Hooks, queues queueReader, do pauser) Topic {
	t := &pauses{hooks, queues, do}
	return Topic{
		Routes: []Route{
			{Method: "POST", Path: "/queue/*/pause", About: "begin no run of the queue", act: t.pauseQueue, Command: &Command{
				Use: "queue pause QUEUE", Short: "Begin no run of a queue until it is resumed", Args: ofOne, Takes: oneQueue, Names: QueueNames,
				Long: `Begin no run of a queue until it is resumed. Runs in flight end, and events are queued. A pause survives a reload and ends
with the process. While "main" is paused, hooks that are added wait for their Synchronizations.`,
				Example: "  shell-operator queue pause main",
			}},
			{Method: "POST", Path: "/queue/*/resume", About: "end the pause of the queue", act: t.resumeQueue, Command: &Command{
				Use: "queue resume QUEUE", Short: "End the pause of a queue", Example: "  shell-operator queue resume main", Args: ofOne,
				Takes: oneQueue, Names: QueueNames,
			}},
			{Method: "POST", Path: "/hook/*/pause", About: "begin no run of the hook; requests are answered", act: t.pauseHook, Command: &Command{
				Use: "hook pause HOOK", Short: "Begin no run of a hook until it is resumed", Args: ofOne, Takes: oneHook, Names: HookNames,
				Long: `Begin no run of a hook until it is resumed: queues pass over its tasks, onStartup and Synchronizations included. Webhook and
HTTP requests are answered. A pause survives a reload and ends with the process.`,
				Example: "  shell-operator hook pause pods.sh",
			}},
			{Method: "POST", Path: "/hook/*/resume", About: "end the pause of the hook", act: t.resumeHook, Command: &Command{
				Use: "hook resume HOOK", Short: "End the pause of a hook", Example: "  shell-operator hook resume pods.sh", Args: ofOne, Takes: oneHook,
				Names: HookNames,
			}},
		},
		Reasons:  t.reasons,
		Troubles: t.troubles,
	}
}

func (t *pauses) reasons(h *hook.Hook, _ time.Time) (reasons []Reason) {
	if slices.Contains(t.do.PausedHooks(), h.Name) {
		reasons = append(reasons, Reason{ByPause, true, "the hook is paused", "shell-operator hook resume " + h.Name})
	}
	for _, q := range t.queues.Queues(0) {
		if q.Paused && owns(h, q.Name) {
			reasons = append(reasons, Reason{ByPause, true, fmt.Sprintf("queue %q is paused with %s", q.Name, count(q.Length, "task")),
				"shell-operator queue resume " + q.Name})
		}
	}
	return reasons
}

func (t *pauses) troubles() (all []Trouble) {
	for _, name := range t.do.PausedHooks() {
		all = append(all, Trouble{Kind: IsPaused, Hooks: []string{name}, Subject: name, Problem: "is paused",
			Hint: "shell-operator hook resume " + name, Notice: true})
	}
	for _, q := range t.queues.Queues(0) {
		if q.Paused {
			all = append(all, Trouble{Kind: IsPaused, Subject: fmt.Sprintf("queue %q", q.Name), Problem: "is paused with " + count(q.Length, "task"),
				Hint: "shell-operator queue resume " + q.Name, Notice: true})
		}
	}
	return all
}

// untilRestart is what users of pauses have to know.
const untilRestart = "; the pause survives a reload and ends with the process"

func (t *pauses) pauseQueue(r request, dryRun bool) (acted, error) {
	q, err := queueOfRequest(t.queues, r, 0)
	if err != nil {
		return acted{}, err
	}
	if !dryRun {
		t.do.PauseQueue(q.Name)
	}
	text := fmt.Sprintf("queue %q is paused: runs in flight end, no other begins, events are queued", q.Name)
	if q.Name == hook.MainQueue {
		text += "; Synchronizations of all hooks that are added wait, too"
	}
	return acted{Count: 1, Message: text + untilRestart}, nil
}

func (t *pauses) resumeQueue(r request, dryRun bool) (acted, error) {
	q, err := queueOfRequest(t.queues, r, 0)
	if err != nil {
		return acted{}, err
	}
	if !q.Paused {
		return acted{Message: fmt.Sprintf("queue %q is not paused", q.Name)}, nil
	}
	if !dryRun {
		t.do.ResumeQueue(q.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("queue %q is resumed with %s", q.Name, count(q.Length, "task"))}, nil
}

func (t *pauses) pauseHook(r request, dryRun bool) (acted, error) {
	h, err := t.hooks.find(r)
	if err != nil {
		return acted{}, err
	}
	if !dryRun {
		t.do.PauseHook(h.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("hook %q is paused: queues pass over its tasks; webhook and HTTP requests are answered",
		h.Name) + untilRestart}, nil
}

func (t *pauses) resumeHook(r request, dryRun bool) (acted, error) {
	h, err := t.hooks.find(r)
	if err != nil {
		return acted{}, err
	}
	if !slices.Contains(t.do.PausedHooks(), h.Name) {
		return acted{Message: fmt.Sprintf("hook %q is not paused", h.Name)}, nil
	}
	if !dryRun {
		t.do.ResumeHook(h.Name)
	}
	return acted{Count: 1, Message: fmt.Sprintf("hook %q is resumed", h.Name)}, nil
}
