package main

import (
	"encoding/json"
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

var liveSets = live{"/sets/list.json", func(text []byte) (names []string) {
	var all []debug.Set
	_ = json.Unmarshal(text, &all)
	for _, s := range all {
		names = append(names, cobra.CompletionWithDesc(s.ID, s.Hook+" "+s.Owner))
	}
	return names
}}

func newSetsCommand(a *asking) *cobra.Command {
	c := &cobra.Command{Use: "sets", Short: "Show and delete the sets of objects of hooks"}
	list := &cobra.Command{
		Use: "list", Short: "Show the sets of objects of all hooks",
		Long:    "Show the sets of objects of this installation: the id, the hook, the owner, the number of objects, and whether the hook is gone.",
		Example: "  shell-operator sets list\n  shell-operator sets list -o json | jq '.[] | select(.hookAbsent)'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd.Context(), "/sets/list", "", nil) },
	}
	show := &cobra.Command{
		Use: "show SET", Short: "Show the objects of a set with their state",
		Long: `Show the objects of a set: applied, drifted (another client has changed or deleted it), waiting for CRD, rejected (the last
Sync could not apply it), or unknown (the hook has not synced the set since the operator started). SET is the id, the name, or
HOOK/NAME.`,
		Example: "  shell-operator sets show pages", Args: exactlyOne("a set"), ValidArgsFunction: a.fromOperator(liveSets),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), "/sets/"+debug.Name(args[0]), "", nil)
		},
	}
	a.addOutput(list)
	a.addOutput(show)
	remove := &cobra.Command{
		Use: "delete [SET]", Short: "Delete the objects of a set whose hook is gone",
		Long: `Delete the objects of a set, or of all sets of --hook, as an empty Sync does: kinds with data, such as PersistentVolumeClaims,
are released and kept. The set of an active hook is deleted with --force only. SET is the id, the name, or HOOK/NAME.`,
		Example:           "  shell-operator sets delete pages --dry-run\n  shell-operator sets delete --hook sites.sh",
		ValidArgsFunction: a.fromOperator(liveSets),
	}
	hook := remove.Flags().String("hook", "", "delete all sets of this hook")
	force := remove.Flags().Bool("force", false, "also delete sets of an active hook")
	remove.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || (*hook == "") == (len(args) == 0) {
			return errors.New("name one set, or with --hook a hook: shell-operator sets list shows the ids")
		}
		return nil
	}
	c.AddCommand(list, show, a.newAction(remove, func([]string) (string, string) { return "/sets/delete", "" }, func(args []string) url.Values {
		fields := url.Values{"hook": {*hook}}
		if len(args) == 1 {
			fields = url.Values{"set": {args[0]}}
		}
		if *force {
			fields.Set("force", "true")
		}
		return fields
	}))
	return c
}
