package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// removeLeftovers removes the webhooks of earlier hooks, as no hook serves them any more, and keeps them removed.
func (w *Servers) removeLeftovers(ctx context.Context) error {
	at, err := endpointOf(w.o.Cluster, w.o.Webhooks, w.o.Webhooks.Admission)
	if err != nil || at.namespace == "" {
		return nil // without a namespace nothing can have been registered
	}
	r := admission.NewRegistrar(admission.RegistrarOptions{
		ConfigurationName: w.o.Webhooks.ConfigurationName, Inside: true, Left: &w.registrations.left,
		Target: keep.Target{
			Client: w.client, Leading: w.o.Leading, Service: types.NamespacedName{Namespace: at.namespace, Name: w.o.Webhooks.Admission.ServiceName},
			Bundle: func() []byte { return nil }, Seen: func(string, []string, bool) {}, Report: w.registrations.report, Log: w.o.Log,
		},
	})
	return r.Run(ctx)
}

// Uninstall removes the webhook configurations that an operator with the same options has registered. It uses
// the options Cluster, Webhooks, DryRun and Log.
//
// Outside a Pod, the operator may have been in one, behind a Service, or outside as well: then it has registered a URL whose
// port may be unknown.
func Uninstall(ctx context.Context, o Options) error {
	outside := !o.Cluster.Inside
	// a Service counts only in a namespace that was given, or in the one of the Pod
	o.Cluster = &kube.Cluster{Config: o.Cluster.Config, Inside: true}
	at, err := endpointOf(o.Cluster, o.Webhooks, o.Webhooks.Admission)
	if err != nil && !outside {
		return err
	}
	client, err := kube.NewClient(o.Cluster.Config)
	if err != nil {
		return err
	}
	r := admission.NewRegistrar(admission.RegistrarOptions{
		Target: keep.Target{Client: client, Log: o.Log, URL: at.url,
			Service: types.NamespacedName{Namespace: at.namespace, Name: o.Webhooks.Admission.ServiceName}},
		ConfigurationName: o.Webhooks.ConfigurationName, AnyURL: outside && at.url == "", DryRun: o.DryRun,
	})
	return r.Remove(ctx)
}
