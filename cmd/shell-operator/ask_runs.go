package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRunsCommand is what is more than a route: the list of runs is one.
func newRunsCommand(a *asking) *cobra.Command {
	c := &cobra.Command{Use: "runs", Aliases: []string{"history"}, Short: "Show the last runs: cause, time, duration, outcome"}
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
