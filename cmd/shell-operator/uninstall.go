package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
)

func newUninstallCommand(s *settings, stdout io.Writer) *cobra.Command {
	return uses(&cobra.Command{
		Use:   "uninstall-webhooks",
		Short: "Remove the webhook configurations of an operator that is gone",
		Long: `Remove the validating and mutating webhook configurations that an operator has registered, so that the
API server does not ask a Service behind which nobody answers any more.

Give the flags that the operator was started with, above all --namespace. With --webhook-create-services the Services
that the operator has made go too. Configurations that lead somewhere else stay. spec.conversion of CRDs stays too: without it objects could no longer be read.`,
		Example: "  shell-operator uninstall-webhooks --namespace shell-operator",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return app.UninstallWebhooks(cmd.Context(), s.options(logger(s, stdout)))
		},
	}, "namespace", "webhook-url", "validating-webhook-configuration-name", "validating-webhook-service-name", "kube-config", "kube-context", "kube-server", "log-level")
}
