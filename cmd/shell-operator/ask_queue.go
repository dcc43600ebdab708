package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

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
			return a.repeat(period, show)
		},
	}
	addFormat(c, &a.output, answerFormats...)
	c.Flags().BoolVarP(&showEmpty, "show-empty", "e", false, "include empty queues")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "refresh until Ctrl-C")
	c.Flags().StringVarP(&interval, "watchInterval", "t", "1s", "refresh interval")
	return c
}
