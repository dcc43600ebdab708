package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func newQueueCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "Show queues and their tasks, retry, skip, pause and resume",
	}
	c.AddCommand(newQueueListCommand(a), newQueueMainCommand(a)) // the list of a noun alone is a route
	return c
}

func newQueueListCommand(a *asking) *cobra.Command {
	var showEmpty, watch bool
	var interval string
	c := &cobra.Command{
		Use:   "list",
		Short: "Show all queues with their tasks",
		Long: `Show all queues with their first 1,000 tasks. The first task of a queue is the one that runs, or that is retried. Empty queues are
shown if they are paused.

"shell-operator why HOOK" explains what a hook waits for.`,
		Example: "  shell-operator queue list\n  shell-operator queue list --watch --watchInterval 500ms\n  shell-operator queue list " +
			"--show-empty -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := ""
			if showEmpty {
				query = "showEmpty=true"
			}
			show := func(ctx context.Context) error { return a.show(ctx, "/queue/list", query) }
			if !watch {
				return show(cmd.Context())
			}
			period, err := time.ParseDuration(interval)
			if err != nil || period <= 0 {
				period = time.Second
			}
			return a.repeat(cmd, period, show)
		},
	}
	a.addOutput(c)
	c.Flags().BoolVarP(&showEmpty, "show-empty", "e", false, "include empty queues")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "refresh until Ctrl-C")
	c.Flags().StringVarP(&interval, "watchInterval", "t", "1s", "refresh interval")
	return c
}

func newQueueMainCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "main",
		Short:   "Show the main queue with its tasks",
		Example: "  shell-operator queue main\n  shell-operator queue main -o yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), "/queue/main", "")
		},
	}
	a.addOutput(c)
	return c
}
