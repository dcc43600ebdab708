package webhook

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
)

// removeLeftovers removes what an earlier version of the hooks has registered: nobody would answer there.
func removeLeftovers(ctx context.Context, client rest.Interface, o Options) error {
	at, err := placeOf(o.Cluster, o.Webhooks, o.Webhooks.Admission)
	if err != nil || at.namespace == "" {
		return nil // without a namespace nothing can have been registered
	}
	r, err := admission.NewRegistrar(admission.RegistrarOptions{
		Client: client, ConfigurationName: o.Webhooks.ConfigurationName, Log: o.Log,
		Service: admission.Service{Name: o.Webhooks.Admission.ServiceName, Namespace: at.namespace},
	})
	if err != nil {
		return err
	}
	if err := r.Remove(ctx); err != nil {
		o.Log.Warn("Cannot remove webhook configurations that no hook needs any more", "error", err.Error())
	}
	return nil
}

// Uninstall removes the webhook configurations that an operator behind a Service has registered, and the Services that
// it has made. Of the options Cluster, Webhooks and Log count.
func Uninstall(ctx context.Context, o Options) error {
	// It is the Service that matters, not where we are.
	o.Cluster = &kube.Cluster{Config: o.Cluster.Config, Inside: true}
	at, err := placeOf(o.Cluster, o.Webhooks, o.Webhooks.Admission)
	if err != nil {
		return err
	}
	client, err := kube.NewClient(o.Cluster.Config)
	if err != nil {
		return err
	}
	registered := admission.RegistrarOptions{Client: client, ConfigurationName: o.Webhooks.ConfigurationName, Log: o.Log}
	if at.url != "" {
		registered.URL = at.url
	} else {
		registered.Service = admission.Service{Name: o.Webhooks.Admission.ServiceName, Namespace: at.namespace}
	}
	r, err := admission.NewRegistrar(registered)
	if err != nil {
		return err
	}
	return errors.Join(r.Remove(ctx), removeServices(ctx, client, o))
}
