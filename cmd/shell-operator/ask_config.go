package main

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"
)

func newConfigCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and change settings of a running operator",
	}
	c.AddCommand(newConfigListCommand(a), newConfigSetCommand(a))
	return c
}

func newConfigListCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the settings that can be changed",
		Example: "  shell-operator config list\n  shell-operator config list -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd.Context(), "/config/list", "", nil) },
	}
	a.addOutput(c)
	return c
}

func newConfigSetCommand(a *asking) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME VALUE [DURATION]",
		Short: "Change a setting, for a while or until the operator ends",
		Long: `Change a setting of a running operator. With a duration the old value comes back when it is over; without one the
new value stays until the operator ends. The log level debug always goes after 30 minutes if no duration is given.`,
		Example: "  shell-operator config set log.level debug 10m\n  shell-operator config set log.level warn",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("config set needs a name, a value and, if you like, a duration: for instance config set log.level debug 10m")
			}
			return nil
		},
		ValidArgsFunction: a.parameters(),
		RunE: func(cmd *cobra.Command, args []string) error {
			form := url.Values{"name": {args[0]}, "value": {args[1]}}
			if len(args) == 3 {
				form.Set("duration", args[2])
			}
			return a.client().Post(cmd.Context(), "/config/set", form)
		},
	}
}
