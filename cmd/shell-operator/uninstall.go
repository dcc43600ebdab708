package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

func newUninstallCommand(s *settings, stdout io.Writer) *cobra.Command {
	return uses(&cobra.Command{
		Use:   "uninstall-webhooks",
		Short: "Remove the webhook configurations of an operator that was uninstalled",
		Long: `Remove the validating and mutating webhook configurations that an operator has registered, so that the API
server no longer calls an operator that is gone.

Pass the flags of the operator's start. For an operator in a Pod, run the command there or pass --namespace; outside a
Pod, configurations of this name that were registered by URL are removed. With --webhook-create-services the command
also deletes the Services that the operator has created. Configurations of other addresses are kept, and so is
spec.conversion of CRDs: without it their objects could not be read.`,
		Example: "  shell-operator uninstall-webhooks --namespace shell-operator",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return uninstallWebhooks(cmd.Context(), s.options(logger(s, stdout)))
		},
	}, "namespace", "webhook-url", "validating-webhook-configuration-name", "validating-webhook-service-name", "kube-config", "kube-context", "kube-server", "log-level")
}

func uninstallWebhooks(ctx context.Context, o app.Options) error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cl, err := kube.Connect(o.Cluster, dir)
	if err != nil {
		return err
	}
	return webhook.Uninstall(ctx, webhook.Options{Cluster: cl, Webhooks: o.Webhooks, Log: o.Log})
}
