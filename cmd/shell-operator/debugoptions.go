package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newDebugOptionsCommand(s *settings, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "debug-options",
		Short:   "Print the flags for debugging, which --help leaves out",
		Example: "  shell-operator debug-options",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			fs.SortFlags = false
			for _, row := range s.list {
				if row.hidden {
					f := *cmd.Root().PersistentFlags().Lookup(row.flag)
					f.Hidden = false
					fs.AddFlag(&f)
				}
			}
			_, err := fmt.Fprint(stdout, fs.FlagUsages())
			return err
		},
	}
}
