package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// atTab is the time limit for the operator during a completion.
const atTab = time.Second

// completed are the names of a running operator. Without one, there are none, and nothing is printed: output would appear in the middle of
// the command line. Of is the first argument.
func (a *asking) completed(cmd *cobra.Command, all debug.Names, of string) ([]string, cobra.ShellCompDirective) {
	// The socket may be set by a variable or the file, which are not read during a completion.
	if a.settings.complete(cmd.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), atTab)
	defer cancel()
	return a.names(ctx, all, of, true), cobra.ShellCompDirectiveNoFileComp
}

// fromOperator completes the first argument.
func (a *asking) fromOperator(all debug.Names) cobra.CompletionFunc {
	return a.arguments(&debug.Command{Names: all})
}

// arguments completes the arguments of the command of a route.
func (a *asking) arguments(is *debug.Command) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case is.Many != "":
			names, directive := a.completed(cmd, is.Names, "")
			return slices.DeleteFunc(names, func(name string) bool {
				name, _, _ = strings.Cut(name, "\t")
				return slices.Contains(args, name)
			}), directive
		case len(args) == 0:
			return a.completed(cmd, is.Names, "")
		case len(args) == 1 && is.Then.Path != "":
			return a.completed(cmd, is.Then, args[0])
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// flagValues completes the value of a flag.
func (a *asking) flagValues(all debug.Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completed(cmd, all, strings.Join(args[:min(1, len(args))], ""))
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
