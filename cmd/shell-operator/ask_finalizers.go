package main

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

var liveFinalizers = live{"/finalizers/list.json", func(text []byte) (names []string) {
	var all []debug.Finalizer
	_ = json.Unmarshal(text, &all)
	for _, f := range all {
		names = append(names, cobra.CompletionWithDesc(f.Finalizer, f.Hook))
	}
	return names
}}

func newFinalizersCommand(a *asking) *cobra.Command {
	c := &cobra.Command{Use: "finalizers", Short: "Show and remove the finalizers of hooks"}
	list := &cobra.Command{
		Use: "list", Short: "Show the record of finalizers",
		Long: `Show which finalizer was added by which hook to which resource, of all operators that share the namespace. Orphaned ones have no
hook or binding any more: their objects cannot be deleted. Heartbeats are those of the operators that share the namespace.`,
		Example: "  shell-operator finalizers list\n  shell-operator finalizers list -o json | jq '.[] | select(.orphan)'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd.Context(), "/finalizers/list", "", nil) },
	}
	a.addOutput(list)
	remove := &cobra.Command{
		Use: "remove NAME | KIND NAMESPACE/NAME", Short: "Remove a finalizer from all objects, or those of hooks from one object",
		Long: `Remove a finalizer from all objects: one whose hook is gone, or with --instance that of another installation. A finalizer
of an active hook is not removed.

With a kind and an object, remove the finalizers of hooks from this object. No hook runs for that; what the hook would have cleaned up
is left. A cluster-scoped object is NAME.`,
		Example: "  shell-operator finalizers remove example.com/database\n  shell-operator finalizers remove Database shop/orders",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("%s takes the name of a finalizer, or a kind and an object: see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.fromOperator(liveFinalizers),
	}
	instance := remove.Flags().String("instance", "", "installation that has added the finalizer; default: that of the operator")
	c.AddCommand(list, a.newAction(remove, func([]string) (string, string) { return "/finalizers/remove", "" }, func(args []string) url.Values {
		if len(args) == 2 {
			return url.Values{"kind": {args[0]}, "object": {args[1]}}
		}
		return url.Values{"name": {args[0]}, "instance": {*instance}}
	}))
	return c
}
