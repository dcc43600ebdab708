package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/kube"
)

var liveSets = live{"/sets/list.json", func(text []byte) (names []string) {
	var all []debug.Set
	_ = json.Unmarshal(text, &all)
	for _, s := range all {
		names = append(names, cobra.CompletionWithDesc(s.ID, s.Hook+" "+s.Owner))
	}
	return names
}}

// clusterFlags make a command use a cluster in place of a running operator.
var clusterFlags = []string{"kube-config", "kube-context", "kube-server", "namespace", "instance"}

// needsNoOperator is the help about these flags.
const needsNoOperator = `With --kube-config, --kube-context, --kube-server, --namespace or --instance the command uses the cluster, and the operator need not run.
It is not known then which hooks are active.`

// useCluster makes the command one of a cluster.
func (a *asking) useCluster() error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := a.settings.options(slog.New(slog.DiscardHandler))
	cl, err := kube.Connect(o.Cluster, dir)
	if err == nil {
		a.direct, err = app.NewSetsClient(cl, o)
	}
	return err
}

func newSetsCommand(a *asking) *cobra.Command {
	c := &cobra.Command{Use: "sets", Short: "Show, move and delete the sets of objects of hooks"}
	c.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		direct := slices.ContainsFunc(clusterFlags, cmd.Flags().Changed) // later, a variable is a changed flag, too
		err := a.settings.complete(cmd.Flags())
		if err == nil && direct {
			err = a.useCluster()
		}
		return err
	}
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
are released and kept, unless the last Sync had them in pruneKinds. The set of an active hook is deleted with --force only. SET is the id, the name, or HOOK/NAME.`,
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
	}), newSetsAdopt(a))
	for _, sub := range c.Commands() {
		uses(sub, append([]string{"debug-unix-socket"}, clusterFlags...)...)
		sub.Long += "\n\n" + needsNoOperator
	}
	return c
}

func newSetsAdopt(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use: "adopt [SET]", Short: "Move a set of objects to another hook or name",
		Long: `Move a set of objects, or all sets of --hook, to another hook or name: after a hook was renamed, or the set in it. No object is
deleted or created. SET is the id, or the name or HOOK/NAME for the sets of all owners. An interrupted command is completed by running
it again. With --force the earlier hook may be active, the other one may be missing, and its set may have objects already.`,
		Example:           "  shell-operator sets adopt --hook sites.sh --to-hook shops.sh\n  shell-operator sets adopt sites.sh/pages --to-set articles --dry-run",
		ValidArgsFunction: a.fromOperator(liveSets),
	}
	var hook, toHook, toSet string
	var force bool
	c.Flags().StringVar(&hook, "hook", "", "move all sets of this hook")
	c.Flags().StringVar(&toHook, "to-hook", "", "hook that gets the sets; default: the same")
	c.Flags().StringVar(&toSet, "to-set", "", "name of the set afterwards; default: the same")
	c.Flags().BoolVar(&force, "force", false, "also move sets of an active hook, and to a set that has objects")
	c.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 1 || (hook == "") == (len(args) == 0):
			return errors.New("name one set, or with --hook a hook: shell-operator sets list shows the ids")
		case toHook == "" && toSet == "":
			return errors.New("name the hook or the set that gets the objects: use --to-hook, --to-set or both")
		case toSet != "" && hook != "":
			return errors.New("--hook can have sets of several names, and --to-set would join them: name the set")
		}
		return nil
	}
	return a.newAction(c, func([]string) (string, string) { return "/sets/adopt", "" }, func(args []string) url.Values {
		fields := url.Values{"toHook": {toHook}, "toSet": {toSet}, "hook": {hook}}
		if len(args) == 1 {
			fields.Set("set", args[0])
		}
		if force {
			fields.Set("force", "true")
		}
		return fields
	})
}
