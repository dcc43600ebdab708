package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newOptionsCommand(s *settings, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "List all settings",
		Long:    `List all settings in groups. Each is a flag that every command accepts, and an environment variable; the flag wins.`,
		Example: "  shell-operator options",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var b strings.Builder
			for _, g := range s.groups() {
				fmt.Fprintf(&b, "%s:\n%s\n", g.title, groupFlags(cmd, g).FlagUsages())
			}
			_, err := io.WriteString(stdout, strings.TrimSuffix(b.String(), "\n"))
			return err
		},
	}
}

// newDebugOptionsCommand is upstream's command for flags that --help leaves out.
func newDebugOptionsCommand(s *settings, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:     "debug-options",
		Short:   "List the settings for debugging",
		Example: "  shell-operator debug-options",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			groups := s.groups()
			_, err := io.WriteString(stdout, groupFlags(cmd, groups[len(groups)-1]).FlagUsages())
			return err
		},
	}
}

// groupFlags are the flags of a group.
func groupFlags(cmd *cobra.Command, g settingGroup) *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	for _, row := range g.settings {
		fs.AddFlag(cmd.Root().PersistentFlags().Lookup(row.flag))
	}
	return fs
}
