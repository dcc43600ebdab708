package app

import (
	"context"
	"os"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

// UninstallWebhooks removes the webhook configurations that an operator behind a Service has registered, and the
// Services that it has made.
func UninstallWebhooks(ctx context.Context, o Options) error {
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
