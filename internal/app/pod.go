package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/shell-operator/shell-operator/internal/resource"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// ownPod is the Pod that the operator runs in. The name is empty when it runs in none, or nobody knows.
type ownPod struct{ namespace, name string }

func findPod(cl *cluster, o Options) ownPod {
	p := ownPod{name: o.Pod}
	given := o.Webhooks.Namespace
	if cl.inside {
		given = "" // the Services may be elsewhere
		if p.name == "" {
			p.name, _ = os.Hostname()
		}
	}
	var err error
	if p.namespace, err = cl.ownNamespace(given); err != nil {
		return ownPod{}
	}
	return p
}

// newKubeEvents returns nil when there is nothing that Events could be about, or nobody wants them.
func newKubeEvents(cl *cluster, o Options) (*kubeevent.Recorder, error) {
	p := findPod(cl, o)
	if !o.KubernetesEvents || p.name == "" {
		return nil, nil
	}
	client, err := resource.NewClient(cl.config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for Events: %w", err)
	}
	return kubeevent.New(kubeevent.Options{Client: client, Namespace: p.namespace, Pod: p.name, Log: o.Log}), nil
}

// runEnded tells everybody who wants to know of a run.
func (op *operator) runEnded(r run.Report) {
	op.meter.RunEnded(r)
	switch {
	case r.Err == nil:
		op.events.Succeeded(r.Hook.Name, r.Queue)
	case !r.Allowed:
		op.events.Failed(r.Hook.Name, r.Queue, fmt.Sprintf("Hook %q fails (attempt %d): %s", r.Hook.Name, r.Attempt, run.PublicReason(r.Err)))
	}
}

// warnOfReplicas tells when there are other replicas that run the same hooks at the same time. It looks once: replicas
// that are added later look themselves. Who may not look is not warned.
func warnOfReplicas(ctx context.Context, cl *cluster, o Options) {
	p := findPod(cl, o)
	if o.Election.Enabled || p.name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	owner, n, err := replicas(ctx, cl, p)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		o.Log.Debug("Cannot find out whether there are more replicas", "error", err.Error())
	case n > 1:
		o.Log.Warn("There is more than one replica, and each runs all hooks: start them with --leader-election, so that one does and the others stand by",
			"owner", owner, "replicas", n)
	}
}

// replicas asks for what owns the Pod how many there should be.
func replicas(ctx context.Context, cl *cluster, p ownPod) (owner string, n int, err error) {
	client, err := resource.NewClient(cl.config)
	if err != nil {
		return "", 0, err
	}
	get := func(into any, path ...string) error {
		text, err := client.Get().AbsPath(path...).Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	}
	var pod struct {
		Metadata struct {
			OwnerReferences []struct {
				Kind, Name string
				Controller bool
			}
		}
	}
	if err := get(&pod, "/api/v1/namespaces", p.namespace, "pods", p.name); err != nil {
		return "", 0, err
	}
	resources := map[string]string{"ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
	for _, ref := range pod.Metadata.OwnerReferences {
		if resources[ref.Kind] == "" || !ref.Controller {
			continue
		}
		var set struct {
			Spec   struct{ Replicas int }
			Status struct{ DesiredNumberScheduled int }
		}
		err := get(&set, "/apis/apps/v1/namespaces", p.namespace, resources[ref.Kind], ref.Name)
		return ref.Kind + "/" + ref.Name, max(set.Spec.Replicas, set.Status.DesiredNumberScheduled), err
	}
	return "", 1, nil
}
