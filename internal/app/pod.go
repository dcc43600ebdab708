package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// newKubeEvents returns nil without a Pod that Events could be about, or if they are disabled.
func newKubeEvents(cl *kube.Cluster, o Options) (*kubeevent.Recorder, error) {
	p := cl.OwnPod(o.Pod, o.Webhooks.Namespace)
	if !o.KubernetesEvents || p.Name == "" {
		return nil, nil
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for Events: %w", err)
	}
	return kubeevent.New(kubeevent.Options{Client: client, Namespace: p.Namespace, Pod: p.Name, UID: types.UID(o.PodUID), Log: o.Log}), nil
}

// runEnded reports a run to metrics and Events.
func (op *operator) runEnded(r run.Report) {
	op.meter.RunEnded(r)
	switch {
	case r.Err == nil:
		op.events.Succeeded(r.Hook.Name, r.Queue)
	case !r.Allowed:
		op.events.Failed(r.Hook.Name, r.Queue, fmt.Sprintf("Hook %q fails (attempt %d): %s", r.Hook.Name, r.Attempt, run.PublicReason(r.Err)))
	}
}
