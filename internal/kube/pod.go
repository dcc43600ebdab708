package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"
)

// Pod is the Pod of the operator. Name is empty outside a Pod, and if it is unknown.
type Pod struct{ Namespace, Name string }

// OwnPod returns the Pod of the operator. Outside the cluster that is the given one.
func (c *Cluster) OwnPod(name, namespace string) Pod {
	p := Pod{Name: name}
	if c.Inside {
		namespace = "" // the given one is that of Services, which may be another one
		if p.Name == "" {
			p.Name, _ = os.Hostname()
		}
	}
	var err error
	if p.Namespace, err = c.OwnNamespace(namespace); err != nil {
		return Pod{}
	}
	return p
}

// WarnOfReplicas logs a warning when the controller of the Pod has several replicas, which all run the same hooks. It checks once:
// replicas that are added later check themselves. Without permission there is no warning.
func (c *Cluster) WarnOfReplicas(ctx context.Context, p Pod, log *slog.Logger) {
	if p.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	owner, n, err := c.Replicas(ctx, p)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.Debug("Cannot find out whether there are more replicas", "error", err.Error())
	case n > 1:
		log.Warn("There is more than one replica, and each runs all hooks: start them with --leader-election, so that one does, or with "+
			"--shards, so that they share the work",
			"owner", owner, "replicas", n)
	}
}

// Replicas returns the controller of the Pod and its number of replicas.
func (c *Cluster) Replicas(ctx context.Context, p Pod) (owner string, n int, err error) {
	client, err := NewClient(c.Config)
	if err != nil {
		return "", 0, err
	}
	get := func(into any, path ...string) error {
		text, err := Send(ctx, client.Get().AbsPath(path...))
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
	if err := get(&pod, "/api/v1/namespaces", p.Namespace, "pods", p.Name); err != nil {
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
		err := get(&set, "/apis/apps/v1/namespaces", p.Namespace, resources[ref.Kind], ref.Name)
		return ref.Kind + "/" + ref.Name, max(set.Spec.Replicas, set.Status.DesiredNumberScheduled), err
	}
	return "", 1, nil
}
