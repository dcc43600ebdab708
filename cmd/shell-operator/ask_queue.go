package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
		Example: "  shell-operator queue list\n  shell-operator queue list -o table --watch --watchInterval 500ms\n  shell-operator queue list " +
			"--show-empty -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := ""
			if showEmpty {
				query = "showEmpty=true"
			}
			show := func(ctx context.Context) error { return a.show(ctx, "/queue/list", query, queuesTable) }
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
	a.addOutput(c, tableFormats...)
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
			return a.show(cmd.Context(), "/queue/main", "", queueTable)
		},
	}
	a.addOutput(c, tableFormats...)
	return c
}

// queueRow is a queue in answers.
type queueRow struct {
	Name   string
	Count  int `json:"tasksCount"`
	Status string
	Tasks  []struct {
		Index       int
		Description string
	}
	NotShown int
}

func queuesTable(answer []byte) (string, error) {
	var queues struct{ Active, Empty []queueRow }
	if err := json.Unmarshal(answer, &queues); err != nil {
		return "", err
	}
	rows := [][]string{{"QUEUE", "TASKS", "STATUS", "FIRST TASK"}}
	for _, q := range append(queues.Active, queues.Empty...) {
		first := ""
		if len(q.Tasks) > 0 {
			first = q.Tasks[0].Description
		}
		rows = append(rows, []string{q.Name, fmt.Sprint(q.Count), q.Status, first})
	}
	if len(rows) == 1 {
		return "no tasks to handle\n", nil
	}
	return columns(rows), nil
}

func queueTable(answer []byte) (string, error) {
	var q queueRow
	if err := json.Unmarshal(answer, &q); err != nil {
		return "", err
	}
	if q.Count == 0 {
		return "no tasks to handle\n", nil
	}
	var b strings.Builder
	if q.Status != "" {
		b.WriteString(q.Status + "\n\n")
	}
	rows := [][]string{{"#", "TASK"}}
	for _, t := range q.Tasks {
		rows = append(rows, []string{fmt.Sprint(t.Index), t.Description})
	}
	b.WriteString(columns(rows))
	if q.NotShown > 0 {
		fmt.Fprintf(&b, "and %d more\n", q.NotShown)
	}
	return b.String(), nil
}
