package main

import (
	"context"
	"encoding/json"
	"io"
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
func (a *asking) fromOperator(all live) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		// The socket may be set by a variable or the file, which are not read during a completion.
		if len(args) > 0 || a.settings.complete(cmd.Flags()) != nil {
			return nil, nothing
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), atTab)
		defer cancel()
		body, err := a.client().Get(ctx, all.path)
		if err != nil {
			return nil, nothing
		}
		defer body.Close()
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, nothing
		}
		return all.names(text), nothing
	}
}

// hookNames completes the name of a hook.
func (a *asking) hookNames() cobra.CompletionFunc { return a.fromOperator(liveHooks) }

// runIDs completes the id of a run, with the hook and how the run has ended as its description.
func (a *asking) runIDs() cobra.CompletionFunc {
	return a.fromOperator(live{"/run/list.json", func(text []byte) (ids []string) {
		var runs []struct{ ID, Hook, Status string }
		_ = json.Unmarshal(text, &runs)
		for _, r := range runs {
			ids = append(ids, cobra.CompletionWithDesc(r.ID, r.Hook+" "+r.Status))
		}
		return ids
	}})
}

// parameters completes the name of a parameter, and then its value.
func (a *asking) parameters() cobra.CompletionFunc {
	names := a.fromOperator(live{"/config/list.json", func(text []byte) (names []string) {
		var list []struct{ Name, Description string }
		_ = json.Unmarshal(text, &list)
		for _, p := range list {
			names = append(names, cobra.CompletionWithDesc(p.Name, p.Description))
		}
		return names
	}})
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 && args[0] == "log.level" {
			return logLevels, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, typed)
	}
}

// paths completes the paths of raw, with names of hooks.
func (a *asking) paths() cobra.CompletionFunc {
	return a.fromOperator(live{liveHooks.path, func(text []byte) (paths []string) {
		var hooks []string
		_ = json.Unmarshal(text, &hooks)
		for _, path := range debug.Paths(app.Routes()) {
			before, after, named := strings.Cut(path, "*")
			if !named {
				paths = append(paths, path)
				continue
			}
			if before != "/hook/" {
				continue
			}
			for _, hook := range hooks {
				paths = append(paths, before+debug.Name(hook)+after)
			}
		}
		return paths
	}})
}
