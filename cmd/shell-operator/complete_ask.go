package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// atTab is the time limit for the operator during a completion.
const atTab = time.Second

// fromOperator completes the first argument from a running operator. Without one, it completes nothing and prints
// nothing: output would appear in the middle of the command line.
func (a *asking) fromOperator(all debug.Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		// The socket may be set by a variable or the file, which are not read during a completion.
		if len(args) > 0 || a.settings.complete(cmd.Flags()) != nil {
			return nil, nothing
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), atTab)
		defer cancel()
		return a.names(ctx, all, true), nothing
	}
}

// hookNames completes the name of a hook, runIDs the id of a run.
func (a *asking) hookNames() cobra.CompletionFunc { return a.fromOperator(debug.HookNames) }
func (a *asking) runIDs() cobra.CompletionFunc    { return a.fromOperator(debug.RunNames) }

// parameters completes the name of a parameter, and then its value.
func (a *asking) parameters() cobra.CompletionFunc {
	names := a.fromOperator(debug.Names{Path: "/config/list.json", Key: "name", About: []string{"description"}})
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && args[0] == "log.level" {
			return logLevels, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, typed)
	}
}

// paths completes the paths of raw, with names of hooks.
func (a *asking) paths() cobra.CompletionFunc {
	hooks := a.hookNames()
	return func(cmd *cobra.Command, args []string, typed string) (paths []string, _ cobra.ShellCompDirective) {
		names, directive := hooks(cmd, args, typed)
		if names == nil {
			return nil, directive
		}
		for _, path := range debug.Paths(app.Routes()) {
			before, after, named := strings.Cut(path, "*")
			if !named {
				paths = append(paths, path)
				continue
			}
			if before != "/hook/" {
				continue
			}
			for _, hook := range names {
				paths = append(paths, before+debug.Name(hook)+after)
			}
		}
		return paths, directive
	}
}
