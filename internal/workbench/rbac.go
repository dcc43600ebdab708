package workbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/workbench/rbac"
)

// RBACOptions are those of RBAC.
type RBACOptions struct {
	// Name is that of all roles; ServiceAccount is the operator's.
	Name, ServiceAccount string
	// Namespace is where the operator runs; empty means "default".
	Namespace string
	// Configuration begins the names of the webhook configurations, Secret is where certificates are kept.
	Configuration, Secret string
	// Lease is the name of the Lease of the leader election; empty means none.
	Lease string
	// Events: the operator reports failing hooks as Kubernetes Events.
	Events bool
	// Offline uses no cluster, even if there is one.
	Offline bool
}

// discoveryPatience is how long a cluster that may not be there is waited for.
const discoveryPatience = 5 * time.Second

// RBAC returns manifests with the least permissions for the bindings of the hooks. The notes name uncertainties.
func RBAC(ctx context.Context, o Options, r RBACOptions) (manifests string, notes []string, err error) {
	if o.HooksDir, err = filepath.Abs(o.HooksDir); err != nil {
		return "", nil, err
	}
	private, err := prepare(&o)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	hooks, err := hookset.Load(ctx, discovery(o))
	if err != nil {
		return "", nil, err
	}
	finder := &kindFinder{}
	if !r.Offline {
		if err := finder.connect(o.Cluster, private); err != nil {
			return "", nil, err
		}
	}
	asking, cancel := context.WithTimeout(ctx, discoveryPatience)
	defer cancel()
	namespace := r.Namespace
	if namespace == "" {
		namespace = "default"
	}
	roles, err := rbac.Plan(hooks, func(apiVersion, kind string) (rbac.Kind, error) { return finder.find(asking, apiVersion, kind) }, rbac.Options{
		Namespace: namespace, Configuration: r.Configuration + "-hooks", Secret: r.Secret, Lease: r.Lease, Events: r.Events,
	})
	if err != nil {
		return "", finder.notes, err
	}
	return rbac.YAML(roles, rbac.Names{Role: r.Name, ServiceAccount: r.ServiceAccount, Namespace: namespace}), finder.notes, nil
}

// kindFinder resolves kinds by a cluster, or by the built-in table while no cluster answers.
type kindFinder struct {
	resolver *kube.Resolver
	notes    []string
}

// connect fails only for a cluster that was named.
func (f *kindFinder) connect(o kube.Options, dir string) error {
	cl, err := kube.Connect(o, dir)
	if err != nil && o.Kubeconfig == "" && o.Context == "" && o.Server == "" {
		return nil
	}
	if err != nil {
		return err
	}
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return fmt.Errorf("cannot make a client for the cluster: %w", err)
	}
	f.resolver = kube.NewResolver(client)
	return nil
}

func (f *kindFinder) find(ctx context.Context, apiVersion, kind string) (rbac.Kind, error) {
	if f.resolver == nil {
		return rbac.Known(apiVersion, kind)
	}
	found, err := f.resolver.Resolve(ctx, apiVersion, kind, "list", "watch")
	var unknown *kube.UnknownKindError
	switch {
	case err == nil:
		return rbac.Kind{Group: found.Group, Resource: found.Resource, Namespaced: found.Namespaced}, nil
	case errors.As(err, &unknown):
		f.notes = append(f.notes, err.Error())
	default:
		f.notes = append(f.notes, "kinds were not resolved by the cluster: "+err.Error())
		f.resolver = nil
	}
	return rbac.Known(apiVersion, kind)
}
