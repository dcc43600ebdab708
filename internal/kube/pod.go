package kube

import "os"

// Pod is the Pod of the operator. Name is empty outside a Pod, and if it is unknown.
type Pod struct{ Namespace, Name string }

// OwnPod returns the Pod of the operator. Outside the cluster that is the given one.
func (c *Cluster) OwnPod(name, namespace string) Pod {
	p := Pod{Name: name}
	if c.Inside {
		namespace = "" // the Services may be in another namespace
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
