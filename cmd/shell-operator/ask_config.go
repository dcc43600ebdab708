package main

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"
)

func newConfigCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and change runtime parameters",
	}
	c.AddCommand(newConfigListCommand(a), newConfigSetCommand(a))
	return c
}

func newConfigListCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the runtime parameters",
		Example: "  shell-operator config list\n  shell-operator config list -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd.Context(), "/config/list", "") },
	}
	a.addOutput(c)
	return c
}

func newConfigSetCommand(a *asking) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME VALUE [DURATION]",
		Short: "Change a runtime parameter, temporarily or until the operator ends",
		Long: `Change a runtime parameter. With a duration the previous value is restored afterwards; without one the
new value stays until the operator ends. The log level debug without a duration is restored after 30 minutes.`,
		Example: "  shell-operator config set log.level debug 10m\n  shell-operator config set log.level warn",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("config set takes a name, a value and optionally a duration: for instance config set log.level debug 10m")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			form := url.Values{"name": {args[0]}, "value": {args[1]}}
			if len(args) == 3 {
				form.Set("duration", args[2])
			}
			answer, err := a.client().Post(cmd.Context(), "/config/set", form)
			if err != nil {
				return err
			}
			return answer.Close()
		},
	}
}
