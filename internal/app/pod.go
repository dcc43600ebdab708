package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// newKubeEvents makes what publishes Events of hooks and, unless they are disabled, about failing hooks.
func (op *operator) newKubeEvents(cl *kube.Cluster, o Options) (*kubeevent.Recorder, error) {
	config := rest.CopyConfig(cl.Config)
	op.meter.Count(config, "main")
	client, err := kube.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for Events: %w", err)
	}
	with := kubeevent.Options{Client: client, Instance: cl.Instance(o.Installation), Dropped: op.meter.EventDropped, Log: o.Log}
	with.NoFailures = !o.KubernetesEvents
	if p := cl.OwnPod(o.Pod, o.Webhooks.Namespace); p.Name != "" {
		with.Pod = kubeevent.Reference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(o.PodUID)}
	}
	return kubeevent.New(with), nil
}

// runEnded reports a run to metrics and Events.
func (op *operator) runEnded(r run.Report) {
	op.meter.RunEnded(r)
	switch {
	case r.Err == nil:
		op.events.Succeeded(r.Hook.Name, r.Queue, func() bool { return op.queues.Failing(r.Queue, r.Hook.Name, r.Key) })
	case !r.Allowed:
		op.events.Failed(r.Hook.Name, r.Queue, fmt.Sprintf("Hook %q fails (attempt %d): %s", r.Hook.Name, r.Attempt, run.PublicReason(r.Err)))
	}
}
