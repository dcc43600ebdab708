package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

func newUninstallCommand(s *settings, stdout io.Writer) *cobra.Command {
	var deployment string
	var deleteSets bool
	c := uses(&cobra.Command{
		Use:     "uninstall",
		Aliases: []string{"uninstall-webhooks"},
		Short:   "Remove the webhook configurations and finalizers of an operator",
		Long: `Remove the validating and mutating webhook configurations that an operator has registered, so that the API
server no longer calls an operator that is gone, and the finalizers that it has added, so that objects can be deleted
without it. No hook runs for objects that are deleted afterwards.

Pass the flags of the operator's start. For an operator in a Pod, run the command there or pass --namespace; outside a
Pod, configurations of this name that were registered by URL are removed. With --webhook-create-services the command
also deletes the Services that the operator has created. Configurations of other addresses are kept, and so is
spec.conversion of CRDs: without it their objects could not be read.

A running operator registers its webhooks again; it adds no finalizer any more, and bindings with one deliver nothing. With --deployment the command first deletes its Deployment and
waits for the end of its Pods.

With --delete-sets the command also deletes the sets of objects of all hooks, but for kinds with data, such as
PersistentVolumeClaims, that are not in pruneKinds. A running operator creates them again.`,
		Example: "  shell-operator uninstall --namespace shell-operator --deployment shell-operator",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			return uninstall(ctx, s.options(logger(s, stdout)), deployment, deleteSets)
		},
	}, "namespace", "instance", "webhook-url", "validating-webhook-configuration-name", "validating-webhook-service-name", "kube-config", "kube-context", "kube-server", "log-level")
	c.Flags().StringVar(&deployment, "deployment", "", "Deployment of the operator in --namespace, which is deleted first")
	c.Flags().BoolVar(&deleteSets, "delete-sets", false, "delete the sets of objects of hooks")
	return c
}

func uninstall(ctx context.Context, o app.Options, deployment string, deleteSets bool) error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cl, err := kube.Connect(o.Cluster, dir)
	if err != nil {
		return err
	}
	if deployment != "" {
		if err := deleteDeployment(ctx, cl, o, deployment); err != nil {
			return err
		}
	}
	// All are tried: none must keep the others from objects that could not be changed or deleted.
	var sets error
	if deleteSets {
		sets = app.UninstallSets(ctx, cl, o)
	}
	return errors.Join(
		sets,
		app.UninstallFinalizers(ctx, cl, o),
		webhook.Uninstall(ctx, webhook.Options{Cluster: cl, Webhooks: o.Webhooks, Log: o.Log}),
	)
}

func deleteDeployment(ctx context.Context, cl *kube.Cluster, o app.Options, name string) error {
	namespace, err := cl.OwnNamespace(o.Webhooks.Namespace)
	if err != nil {
		return err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return err
	}
	err = kube.One{Client: client, Path: []string{"/apis/apps/v1/namespaces", namespace, "deployments"}, Name: name}.DeleteWithDependents(ctx)
	if kube.IsPermissionMissing(err) {
		err = fmt.Errorf("%w: %s", err, kube.Grant(namespace, kube.Rule{Group: "apps", Resource: "deployments", Names: []string{name}, Verbs: []string{"get", "watch", "delete"}}))
	}
	if err != nil {
		return fmt.Errorf("cannot delete the Deployment %q: %w", name, err)
	}
	o.Log.Info("The Deployment is deleted and its Pods have ended", "deployment", name, "namespace", namespace)
	return nil
}
