package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newRunsCommand(a *asking) *cobra.Command {
	var failed bool
	c := &cobra.Command{
		Use:   "runs [HOOK]",
		Short: "Show the last runs: why, when, how long, how they ended",
		Long: `Show the last runs of all hooks or of one, the latest first: why the hook was run, when, for how long, and how the
run ended. The operator remembers a few runs of each hook, and the last failed one for longer.

A run is named after its task and attempt: 17-2 is the second attempt of the task with task.id=17 in the log.`,
		Example: "  shell-operator runs\n  shell-operator runs pods.sh --failed\n  shell-operator runs show 17-2\n  shell-operator runs -o json",
		Args:    upToOne("one hook"),

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, query := "/run/list", ""
			if len(args) == 1 {
				path = "/hook/" + debug.Name(args[0]) + "/runs"
			}
			if failed {
				query = "failed=true"
			}
			return a.show(cmd.Context(), path, query, nil)
		},
	}
	a.addOutput(c)
	c.Flags().BoolVar(&failed, "failed", false, "only runs that failed")
	c.AddCommand(newRunsShowCommand(a))
	return c
}

func newRunsShowCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run: events, output, error, changes that it asked for",
		Long: `Show one run with the events that the hook was told of, the end of what it printed, its error and the objects that it
wanted to change. RUN is an id as "shell-operator runs" shows it, or a task.id of the log for its last attempt.`,
		Example: "  shell-operator runs show 17-2\n  shell-operator runs show 17 -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("runs show needs the id of one run: shell-operator runs shows them")
			}
			return nil
		},
		ValidArgsFunction: a.runIDs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), "/run/"+debug.Name(args[0]), "", nil)
		},
	}
	a.addOutput(c)
	return c
}
