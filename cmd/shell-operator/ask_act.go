package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// newAction completes a command that changes something in a running operator: it sends a form and prints what was done.
func (a *asking) newAction(c *cobra.Command, target func(args []string) (path, name string), form func(args []string) url.Values) *cobra.Command {
	var dryRun bool
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done")
	a.addOutput(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		format, _, err := a.format(false)
		if err != nil {
			return err
		}
		fields := url.Values{}
		if form != nil {
			fields = form(args)
		}
		if dryRun {
			fields.Set("dryRun", "true")
		}
		path, name := target(args)
		answer, err := a.client().Post(cmd.Context(), path+"."+format, fields)
		if err != nil {
			return a.suggest(cmd.Context(), name, err)
		}
		defer answer.Close()
		return a.print(answer)
	}
	return c
}

// live are the names that a running operator has.
type live struct {
	path  string
	names func(answer []byte) []string
}

var (
	liveHooks = live{"/hook/list.json", func(text []byte) (names []string) {
		_ = json.Unmarshal(text, &names)
		return names
	}}
	liveQueues = live{"/queue/list.json?showEmpty=true", func(text []byte) (names []string) {
		var queues struct{ Active, Empty []queueRow }
		_ = json.Unmarshal(text, &queues)
		for _, q := range append(queues.Active, queues.Empty...) {
			names = append(names, q.Name)
		}
		return names
	}}
	liveParked = live{"/parked/list.json", func(text []byte) (ids []string) {
		var parked []debug.ParkedTask
		_ = json.Unmarshal(text, &parked)
		for _, p := range parked {
			ids = append(ids, cobra.CompletionWithDesc(p.ID, p.Hook+" "+p.Key))
		}
		return ids
	}}
)

// suggest replaces the hint of an error about an unknown name by the nearest name, if there is one.
func (a *asking) suggest(ctx context.Context, name string, err error) error {
	var problem *debug.Problem
	if !errors.As(err, &problem) {
		return err
	}
	var all live
	switch {
	case problem.UnknownHook():
		all = liveHooks
	case problem.UnknownQueue():
		all = liveQueues
	default:
		return err
	}
	body, listErr := a.client().Get(ctx, all.path)
	if listErr != nil {
		return err
	}
	defer body.Close()
	text, _ := io.ReadAll(body)
	if hint := didYouMean(name, all.names(text)); hint != "" {
		return fmt.Errorf("%s%s", problem.Error(), hint)
	}
	return err
}

// ofQueue and ofHook are the targets of actions on the queue or hook of the first argument.
func ofQueue(action string) func([]string) (string, string) {
	return func(args []string) (string, string) { return "/queue/" + debug.Name(args[0]) + "/" + action, args[0] }
}

func ofHook(action string) func([]string) (string, string) {
	return func(args []string) (string, string) { return "/hook/" + debug.Name(args[0]) + "/" + action, args[0] }
}

func newQueueActions(a *asking) []*cobra.Command {
	var all []*cobra.Command
	add := func(c *cobra.Command, action string, form func([]string) url.Values) {
		c.Args, c.ValidArgsFunction = exactlyOne("the name of one queue"), a.fromOperator(liveQueues)
		all = append(all, a.newAction(c, ofQueue(action), form))
	}
	for action, c := range map[string]*cobra.Command{
		"retry": {
			Use: "retry QUEUE", Short: "Begin the next attempt of failed tasks now",
			Long:    "Begin the next attempt of failed tasks now: that of the lane of --key, such as Order.example.com/shop/blue, without it those of all\nlanes. A FIFO queue is one lane.",
			Example: "  shell-operator queue retry main",
		},
		"skip": {
			Use: "skip QUEUE", Short: "Drop a failed task that blocks its queue",
			Long: `Drop the failed task at the head of a queue, or of the lane of --key. Its contexts are in the log. A Synchronization unlocks the
events of its bindings, and an onStartup run counts as done. A task that is running is not dropped.`,
			Example: "  shell-operator queue skip main --dry-run\n  shell-operator queue skip main",
		},
	} {
		key := c.Flags().String("key", "", "lane of a keyed queue")
		add(c, action, func([]string) url.Values {
			if !c.Flags().Changed("key") {
				return url.Values{}
			}
			return url.Values{"key": {*key}}
		})
	}
	add(&cobra.Command{
		Use: "pause QUEUE", Short: "Begin no run of a queue until it is resumed",
		Long: `Begin no run of a queue until it is resumed. Runs in flight end, and events are queued. A pause survives a reload and ends
with the process. While "main" is paused, hooks that are added wait for their Synchronizations.`,
		Example: "  shell-operator queue pause main",
	}, "pause", nil)
	add(&cobra.Command{Use: "resume QUEUE", Short: "End the pause of a queue", Example: "  shell-operator queue resume main"}, "resume", nil)
	return all
}

func newHookActions(a *asking) []*cobra.Command {
	var all []*cobra.Command
	add := func(c *cobra.Command, action string, form func([]string) url.Values) {
		c.ValidArgsFunction = a.fromOperator(liveHooks)
		if c.Args == nil {
			c.Args = oneHook
		}
		all = append(all, a.newAction(c, ofHook(action), form))
	}
	add(&cobra.Command{
		Use: "pause HOOK", Short: "Begin no run of a hook until it is resumed",
		Long: `Begin no run of a hook until it is resumed: queues pass over its tasks, onStartup and Synchronizations included. Webhook and
HTTP requests are answered. A pause survives a reload and ends with the process.`,
		Example: "  shell-operator hook pause pods.sh",
	}, "pause", nil)
	add(&cobra.Command{Use: "resume HOOK", Short: "End the pause of a hook", Example: "  shell-operator hook resume pods.sh"}, "resume", nil)
	record, form := newHookRecordCommand()
	add(record, "record", form)
	add(&cobra.Command{
		Use: "trigger HOOK [BINDING]", Short: "Run a hook now",
		Long: `Queue a run of a hook: a tick for a schedule, a startup run for onStartup, a Synchronization for a kubernetes binding (with
initialObjects: added the Added events). Without BINDING it is the only one. It prints the id of the task. A triggered
Synchronization is next in the main queue; one failure drops it.`,
		Example: "  shell-operator hook trigger pods.sh pods",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("%s takes the name of a hook and perhaps of a binding, it got %d: see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
	}, "trigger", func(args []string) url.Values {
		if len(args) == 1 {
			return url.Values{}
		}
		return url.Values{"binding": {args[1]}}
	})
	return all
}

func newParkedCommand(a *asking) *cobra.Command {
	c := &cobra.Command{Use: "parked", Short: "Show, retry and drop tasks that have failed for the last time"}
	list := &cobra.Command{
		Use: "list", Short: "Show the parked tasks with their errors",
		Example: "  shell-operator parked list\n  shell-operator parked list -o json | jq '.[].id'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd.Context(), "/parked/list", "", nil) },
	}
	a.addOutput(list)
	c.AddCommand(list)
	for _, one := range []*cobra.Command{
		{Use: "retry [ID]", Short: "Queue a parked task, or all of them, again", Long: "Queue a parked task, or all of them, again: before the waiting events of its lane, with all attempts. A Synchronization is replaced by a new one.", Example: "  shell-operator parked retry --all"},
		{Use: "drop [ID]", Short: "Forget a parked task, or all of them", Long: "Forget a parked task, or all of them. Their contexts are in the log.", Example: "  shell-operator parked drop --all --dry-run"},
	} {
		all := one.Flags().Bool("all", false, "all parked tasks")
		one.Args = func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || *all == (len(args) == 1) {
				return errors.New("name one parked task or all of them: give an id or --all, shell-operator parked list shows the ids")
			}
			return nil
		}
		one.ValidArgsFunction = a.fromOperator(liveParked)
		path := "/parked/" + one.Name()
		c.AddCommand(a.newAction(one, func(args []string) (string, string) { return path, "" }, func(args []string) url.Values {
			if *all {
				return url.Values{"all": {"true"}}
			}
			return url.Values{"id": {args[0]}}
		}))
	}
	return c
}
