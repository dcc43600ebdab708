package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newDebugOptionsCommand shows the flags that --help leaves out.
func newDebugOptionsCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "debug-options",
		Short:   "Show the flags of start that are for debugging",
		Example: "  shell-operator debug-options",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, hidden := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
			newSettings(nil).addFlags(all)
			all.VisitAll(func(f *pflag.Flag) {
				if f.Hidden {
					f.Hidden = false
					hidden.AddFlag(f)
				}
			})
			_, err := fmt.Fprint(stdout, hidden.FlagUsages())
			return err
		},
	}
}
