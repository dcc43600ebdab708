package main

import "github.com/spf13/cobra"

func newWhyCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "why HOOK",
		Short: "Explain what a hook waits for",
		Long: `Explain what a hook waits for: its place in a queue and the task at the head, the next attempt, missing permissions and
CRDs, or the events that would run it. The beginning of a hook's name is enough if only one hook has it.`,
		Example: "  shell-operator why pods.sh\n  shell-operator why pods.sh -o json | jq -r .verdict",
		Args:    oneHook,

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showHook(cmd.Context(), args[0], "/why", "", nil)
		},
	}
	a.addOutput(c)
	return c
}
