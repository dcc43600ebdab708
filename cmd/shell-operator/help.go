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

// uses says which settings matter to a command. Every command accepts all of them, before and after its name, but its
// help shows only these.
func uses(cmd *cobra.Command, flags ...string) *cobra.Command {
	cmd.Annotations = map[string]string{"settings": strings.Join(flags, " ")}
	return cmd
}

// usesAll is uses for commands that all settings matter to.
const usesAll = "*"

// usage writes what follows the description in the help of a command.
func (s *settings) usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("  " + cmd.CommandPath() + " [command]\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s  %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	own, shared := s.sections(cmd)
	if own.HasAvailableFlags() {
		b.WriteString("\nFlags:\n" + own.FlagUsages())
	}
	if shared.HasAvailableFlags() {
		b.WriteString("\nSettings, each also as a variable or in the file of --config-file:\n" + shared.FlagUsages())
	}
	if cmd.HasParent() && cmd.Annotations["settings"] != usesAll {
		b.WriteString("\nAll settings of \"shell-operator start\" are accepted, before and after the command.\n")
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// sections splits the flags of a command into its own and the settings that matter to it.
func (s *settings) sections(cmd *cobra.Command) (own, shared *pflag.FlagSet) {
	own, shared = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags, shared.SortFlags = false, false
	shown := strings.Fields(cmd.Annotations["settings"])
	setting := map[string]bool{}
	all := cmd.Root().PersistentFlags()
	for _, row := range s.list {
		setting[row.flag] = true
		switch {
		case slices.Contains(shown, row.flag):
			f := *all.Lookup(row.flag)
			f.Hidden = false // to this command it matters
			shared.AddFlag(&f)
		case slices.Contains(shown, usesAll):
			shared.AddFlag(all.Lookup(row.flag))
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !setting[f.Name] {
			own.AddFlag(f)
		}
	})
	return own, shared
}

// noSuchCommand is the error for words that are no command.
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
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], names))
}

// refuseUnknown lets commands that only have others below them, and help, fail for words that they do not know. By
// itself cobra prints the help of what it knows, and all seems well.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "help":
			cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error { return help(root, args) }
		case cmd.HasSubCommands() && !cmd.Runnable():
			cmd.Args, cmd.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// upToOne and exactlyOne are the checks of commands that take an argument; what says what they take.
func upToOne(what string) cobra.PositionalArgs { return arguments(0, "at most "+what) }

func exactlyOne(what string) cobra.PositionalArgs { return arguments(1, what) }

func arguments(least int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > 1 {
			return fmt.Errorf("%s takes %s, it got %d: %s --help tells more", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// help prints the help of a command.
func help(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return noSuchCommand(found, rest)
	}
	found.InitDefaultHelpFlag()
	return found.Help()
}

// noSuchFlag adds the nearest flag to the error about one that does not exist.
func noSuchFlag(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return fmt.Errorf("%w%s", err, didYouMean("--"+missing.GetSpecifiedName(), names))
}

// hintFor is the next step for errors that have one.
func hintFor(err error) string {
	text := err.Error()
	var known interface{ Hint() string }
	switch {
	case errors.As(err, &known):
		return known.Hint()
	case strings.Contains(text, "unknown flag"), strings.Contains(text, "unknown command"):
		return "shell-operator --help lists commands and flags"
	case errors.Is(err, syscall.ENOSPC):
		return "free some space on that file system, or choose another directory with --tmp-dir or --run-dir"
	case errors.Is(err, os.ErrPermission):
		return "check the owner and mode of that path, and the user that the operator runs as"
	}
	return ""
}
