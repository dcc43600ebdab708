package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// uses sets the settings that the help of a command shows. Every command accepts all of them, before and after its name.
func uses(cmd *cobra.Command, flags ...string) *cobra.Command {
	cmd.Annotations = map[string]string{"settings": strings.Join(flags, " ")}
	return cmd
}

// shorten adds ls to the commands below c that list, and -n to those that use the namespace. Others would ignore it.
func shorten(c *cobra.Command) {
	for _, below := range c.Commands() {
		if shorten(below); below.Name() == "list" {
			below.Aliases = append(below.Aliases, "ls")
		}
		if slices.Contains(strings.Fields(below.Annotations["settings"]), "namespace") {
			f := *c.Root().PersistentFlags().Lookup("namespace")
			f.Shorthand = "n"
			below.Flags().AddFlag(&f)
		}
	}
}

// commandGroups are groups of commands in the help of the program.
var commandGroups = []*cobra.Group{
	{ID: "operator", Title: "Operator:"}, {ID: "develop", Title: "Development of hooks, without an operator:"},
	{ID: "inspect", Title: "A running operator:"},
}

// usage writes what follows the description in the help of a command, with the settings that it uses alone.
func (s *settings) usage(cmd *cobra.Command) error {
	used := strings.Fields(cmd.Annotations["settings"])
	for _, row := range s.list {
		cmd.Root().PersistentFlags().Lookup(row.flag).Hidden = !slices.Contains(used, row.flag)
	}
	cmd.Flags().SortFlags = false
	if err := new(cobra.Command).UsageFunc()(cmd); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.OutOrStderr(), "\n\"shell-operator options\" lists all settings. Every command accepts them.")
	return err
}

// noSuchCommand is the error for an unknown command.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return &hinted{fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], names)),
		cmd.CommandPath() + " --help lists the commands"}
}

// refuseUnknown makes commands that only have subcommands fail for unknown words. By itself cobra prints the help of the known part and
// succeeds.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() && !cmd.Runnable() {
			cmd.Args, cmd.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// upToOne and exactlyOne check the arguments of commands; what names the argument.
func upToOne(what string) cobra.PositionalArgs { return arguments(0, "at most "+what) }

func exactlyOne(what string) cobra.PositionalArgs { return arguments(1, what) }

func arguments(least int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > 1 {
			return fmt.Errorf("%s takes %s, it got %d: see %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// noSuchFlag adds the nearest flag to the error about one that does not exist.
func noSuchFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && typeWords[invalid.GetFlag().Value.Type()] != "" {
		f := invalid.GetFlag()
		return &hinted{fmt.Errorf("--%s=%s is not %s", f.Name, invalid.GetValue(), typeWords[f.Value.Type()]), f.Usage}
	}
	if lacks := new(pflag.ValueRequiredError); errors.As(err, &lacks) {
		return &hinted{fmt.Errorf("--%s has no value", lacks.GetSpecifiedName()), lacks.GetFlag().Usage}
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	hint := cmd.CommandPath() + " --help lists the flags"
	if missing.GetSpecifiedShortnames() != "" {
		return &hinted{err, hint}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return &hinted{fmt.Errorf("%w%s", err, didYouMean("--"+missing.GetSpecifiedName(), names)), hint}
}

// hinted is an error with the next step.
type hinted struct {
	error
	hint string
}

func (h *hinted) Hint() string  { return h.hint }
func (h *hinted) Unwrap() error { return h.error }

// hintFor is the next step for errors that have one.
func hintFor(err error) string {
	var known interface{ Hint() string }
	switch {
	case errors.As(err, &known):
		return known.Hint()
	case errors.Is(err, syscall.ENOSPC):
		return "free some space on that file system, or choose another directory with --tmp-dir or --run-dir"
	case errors.Is(err, os.ErrPermission):
		return "check the owner and mode of that path, and the user that the operator runs as"
	}
	return ""
}
