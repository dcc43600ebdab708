package simulate

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// store has the objects of a simulation: a cluster in memory, which may begin with the objects of a real one.
type store interface {
	// RoundTrip answers the requests of the operator.
	http.RoundTripper
	// load reads the objects that the bindings begin with, and serves their kinds.
	load(ctx context.Context, h *hook.Hook) error
	// learn serves a kind that a manifest or an operation names. Namespaced is a guess, for kinds that are not known otherwise.
	learn(ctx context.Context, apiVersion, kind string, namespaced bool) error
	// find returns the object of a reference. That it was read is no change.
	find(ctx context.Context, ref string) (memory.Object, error)
	// remove removes an object, whatever finalizers it has.
	remove(o memory.Object)
}

var (
	_ store = offline{}
	_ store = (*origin)(nil)
)

// offline is a store without a real cluster.
type offline struct {
	*memory.Server
	transport
}

func (s offline) load(ctx context.Context, h *hook.Hook) error {
	for _, k := range h.Kubernetes {
		if _, known := s.Resolve(k.APIVersion, k.Kind); known || k.Optional {
			continue
		}
		if k.APIVersion == "" {
			return fmt.Errorf("binding %q: the kind %q is not known: add apiVersion to the binding, or its CRD to the objects", k.Name, k.Kind)
		}
		// No object of it exists yet, and most kinds have namespaces.
		if err := s.learn(ctx, k.APIVersion, k.Kind, true); err != nil {
			return fmt.Errorf("binding %q: %w", k.Name, err)
		}
	}
	return nil
}

func (s offline) learn(_ context.Context, apiVersion, kind string, namespaced bool) error {
	if _, known := s.Resolve(apiVersion, kind); known {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if gv.Group == "" {
		return fmt.Errorf("the kind %q is not built into Kubernetes and has no group", kind)
	}
	known, err := rbac.Known(apiVersion, kind)
	if err != nil {
		return err
	}
	s.Learn(memory.Kind{
		Resource: kube.Resource{GroupVersionResource: gv.WithResource(known.Resource), Kind: kind, Namespaced: namespaced}, Guessed: true,
	})
	return nil
}

func (s offline) find(_ context.Context, ref string) (memory.Object, error) {
	return findIn(s.Server, ref)
}

func (s offline) remove(o memory.Object) { s.Remove(o) }
