package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
)

func newUninstallCommand(s *settings, stdout io.Writer) *cobra.Command {
	var u uninstalling
	c := uses(&cobra.Command{
		Use:     "uninstall",
		Aliases: []string{"uninstall-webhooks"},
		Short:   "Remove the webhook configurations and finalizers of an operator",
		Long: `Remove the validating and mutating webhook configurations that an operator has registered, so that the API
server no longer calls an operator that is gone, and the finalizers that it has added, so that objects can be deleted
without it. No hook runs for objects that are deleted afterwards. Kinds that cannot be listed are printed; the status is 1 then.

Pass the flags of the operator's start. For an operator in a Pod, run the command there or pass --namespace; outside a
Pod, configurations of this name that were registered by URL are removed. Configurations of other addresses are kept,
and so is spec.conversion of CRDs: without it their objects could not be read.

A running operator registers its webhooks again; it adds no finalizer any more, and bindings with one deliver nothing.
With --deployment the command first deletes its Deployment and waits for the end of its Pods.

With --delete-sets the command also deletes the sets of objects of all hooks, but for kinds with data, such as
PersistentVolumeClaims, that are not in pruneKinds. A running operator creates them again.

With --dry-run the command logs what it would do, and changes nothing.`,
		Example: "  shell-operator uninstall --namespace shell-operator --deployment shell-operator",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal()
			defer stop()
			return uninstall(ctx, s.options(logger(s, stdout)), u)
		},
	}, "dry-run", "namespace", "instance", "validating-webhook-configuration-name", "validating-webhook-service-name",
		"leader-election-lease", "kube-config", "kube-context", "kube-server", "log-level")
	c.Flags().StringVar(&u.deployment, "deployment", "", "Deployment of the operator in --namespace, which is deleted first")
	c.Flags().BoolVar(&u.ignoreNotFound, "ignore-not-found", false, "go on if there is no such Deployment, as when the command is repeated")
	c.Flags().BoolVar(&u.deleteSets, "delete-sets", false, "delete the sets of objects of hooks")
	return c
}

// uninstalling are the flags of uninstall.
type uninstalling struct {
	deployment                 string
	ignoreNotFound, deleteSets bool
}

func uninstall(ctx context.Context, o app.Options, u uninstalling) error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cl, err := kube.Connect(o.Cluster, dir)
	if err != nil {
		return err
	}
	if u.deployment != "" {
		if err := u.deleteDeployment(ctx, cl, o); err != nil {
			return err
		}
	}
	// All are tried: none must keep the others from objects that could not be changed or deleted.
	var sets error
	if u.deleteSets {
		sets = app.UninstallSets(ctx, cl, o)
	}
	return errors.Join(
		sets,
		app.UninstallFinalizers(ctx, cl, o),
		webhook.Uninstall(ctx, webhook.Options{Cluster: cl, Webhooks: o.Webhooks, DryRun: o.Patches.DryRun, Log: o.Log}),
	)
}

// deleteDeployment returns when the Pods have ended. It fails if there is no such Deployment: with a mistyped name, the operator would
// still be running.
func (u uninstalling) deleteDeployment(ctx context.Context, cl *kube.Cluster, o app.Options) error {
	namespace, err := cl.OwnNamespace(o.Webhooks.Namespace)
	if err != nil {
		return err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return err
	}
	one := kube.One{Client: client, Path: []string{"/apis/apps/v1/namespaces", namespace, "deployments"}, Name: u.deployment}
	done := "The Deployment is deleted and its Pods have ended"
	if o.Patches.DryRun {
		done = "Dry run: the Deployment would be deleted"
		_, err = kube.Send(ctx, client.Get().AbsPath(append(one.Path, one.Name)...))
	} else {
		err = one.DeleteWithDependents(ctx)
	}
	switch {
	case apierrors.IsNotFound(err) && u.ignoreNotFound:
		done = "There is no such Deployment"
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no Deployment %q in namespace %q: nothing was changed; check --namespace, or add --ignore-not-found if it "+
			"was deleted before", u.deployment, namespace)
	case kube.IsPermissionMissing(err):
		return fmt.Errorf("cannot delete the Deployment %q: %w: %s", u.deployment, err,
			kube.Grant(namespace, kube.Rule{Group: "apps", Resource: "deployments", Names: []string{u.deployment},
				Verbs: []string{"get", "delete"}}))
	case err != nil:
		return fmt.Errorf("cannot delete the Deployment %q: %w", u.deployment, err)
	}
	o.Log.Info(done, "deployment", u.deployment, "namespace", namespace)
	return nil
}
