package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newHookCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "hook",
		Aliases: []string{"hooks"},
		Short:   "Show hooks, their configurations and snapshots, pause, resume, record and trigger",
	}
	c.AddCommand(newHookListCommand(a), newHookSnapshotCommand(a))
	return c
}

func newHookListCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the names of hooks; as a table with their state",
		Example: "  shell-operator hook list\n  shell-operator hook list -o table",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch a.output {
			case "table", "wide", "name":
				return (&listing{asking: a, list: debug.HookList, path: "/hooks"}).show(cmd, false)
			}
			return a.show(cmd.Context(), "/hook/list", "", nil)
		},
	}
	a.addOutput(c, "text", "json", "yaml", "table", "wide", "name")
	return c
}

func newHookSnapshotCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot HOOK",
		Short: "Show the snapshots of a hook",
		Long: `Show the snapshots of a hook, one for each kubernetes binding, and how many objects have been
added, modified and deleted since the start and since the last run. With -o table only the numbers are shown.`,
		Example: "  shell-operator hook snapshot pods.sh\n  shell-operator hook snapshot pods.sh -o table\n  shell-operator hook snapshot " +
			"pods.sh -o json | jq '.pods.snapshot[].filterResult'",
		Args: oneHook,

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showHook(cmd.Context(), args[0], "/snapshots", "", snapshotsTable)
		},
	}
	a.addOutput(c, tableFormats...)
	return c
}

// oneHook checks the arguments of commands that take a hook.
func oneHook(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one hook, it got %d: shell-operator hook list shows all", cmd.CommandPath(), len(args))
	}
	return nil
}

// showHook is show for a path of one hook.
func (a *asking) showHook(ctx context.Context, hook, what, query string, render table) error {
	return a.suggest(ctx, hook, a.show(ctx, "/hook/"+debug.Name(hook)+what, query, render))
}

func snapshotsTable(answer []byte) (string, error) {
	type counts struct{ Added, Modified, Deleted int }
	var bindings map[string]struct {
		Snapshot   []json.RawMessage
		Operations struct{ SinceStart, SinceLastExecution counts }
	}
	if err := json.Unmarshal(answer, &bindings); err != nil {
		return "", err
	}
	if len(bindings) == 0 {
		return "the hook has no kubernetes bindings\n", nil
	}
	rows := [][]string{{"BINDING", "OBJECTS", "ADDED", "MODIFIED", "DELETED", "SINCE THE LAST RUN"}}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		b := bindings[name]
		all, recent := b.Operations.SinceStart, b.Operations.SinceLastExecution
		rows = append(rows, []string{
			name, fmt.Sprint(len(b.Snapshot)), fmt.Sprint(all.Added), fmt.Sprint(all.Modified), fmt.Sprint(all.Deleted),
			fmt.Sprintf("%d added, %d modified, %d deleted", recent.Added, recent.Modified, recent.Deleted),
		})
	}
	return columns(rows) + "\nThe objects themselves: -o json or -o yaml\n", nil
}
