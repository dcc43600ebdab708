package main

import (
	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newWhyCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "why HOOK",
		Short: "Tell what a hook waits for",
		Long: `Tell what a hook waits for: its place in a queue and what is in front of it, when it is tried again, which permission
or CRD is missing, or which events would run it.`,
		Example: "  shell-operator why pods.sh\n  shell-operator why pods.sh -o json | jq -r .verdict",
		Args:    oneHook,

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), "/hook/"+debug.Name(args[0])+"/why", "", nil)
		},
	}
	a.addOutput(c)
	return c
}
