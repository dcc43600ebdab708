package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newRunsCommand(a *asking) *cobra.Command {
	var failed bool
	c := &cobra.Command{
		Use:     "runs [HOOK]",
		Aliases: []string{"history"},
		Short:   "Show the last runs: cause, time, duration, outcome",
		Long: `Show the last runs of all hooks or of one, the latest first: their cause, start, duration and outcome. The operator
remembers the last 20 runs of each hook, and the last failed one for longer.

The id of a run is its task and attempt: 17-2 is the second attempt of the task with task.id=17 in the log.`,
		Example: "  shell-operator runs\n  shell-operator runs pods.sh --failed\n  shell-operator runs show 17-2\n  shell-operator runs -o json",
		Args:    upToOne("one hook"),

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := ""
			if failed {
				query = "failed=true"
			}
			if len(args) == 1 {
				return a.showHook(cmd.Context(), args[0], "/runs", query, nil)
			}
			return a.show(cmd.Context(), "/run/list", query, nil)
		},
	}
	a.addOutput(c)
	c.Flags().BoolVar(&failed, "failed", false, "show failed runs only")
	c.AddCommand(newRunsSaveCommand(a), newRunsContextCommand(a))
	return c
}

// oneRun checks the arguments of commands that take the id of a run, first of at most so many.
func oneRun(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < 1 || len(args) > most {
			return fmt.Errorf("%s takes the id of one run: shell-operator runs lists them", strings.TrimPrefix(cmd.CommandPath(), "shell-operator "))
		}
		return nil
	}
}
