package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newHookCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "hook",
		Aliases: []string{"hooks"},
		Short:   "Show hooks, their configurations and snapshots, pause, resume, record and trigger",
	}
	c.AddCommand(newHookListCommand(a), newHookSnapshotCommand(a))
	return c
}

func newHookListCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the names of hooks",
		Example: "  shell-operator hook list\n  shell-operator hook list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd.Context(), "/hook/list", "")
		},
	}
	a.addOutput(c)
	return c
}

func newHookSnapshotCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot HOOK",
		Short: "Show the snapshots of a hook",
		Long: `Show the snapshots of a hook, one for each kubernetes binding, and how many objects have been
added, modified and deleted since the start and since the last run.`,
		Example: "  shell-operator hook snapshot pods.sh\n  shell-operator hook snapshot " +
			"pods.sh -o json | jq '.pods.snapshot[].filterResult'",
		Args: oneHook,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), "/hook/"+debug.Name(args[0])+"/snapshots", "")
		},
	}
	a.addOutput(c)
	return c
}

// oneHook checks the arguments of commands that take a hook.
func oneHook(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one hook, it got %d: shell-operator hook list shows all", cmd.CommandPath(), len(args))
	}
	return nil
}
