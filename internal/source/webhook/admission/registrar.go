package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Service is the operator's Service inside a cluster, with port 443.
type Service struct{ Name, Namespace string }

// RegistrarOptions are those of a Registrar. Client, ConfigurationName and Log are required, and either Service or URL; for Run also Ready,
// Seen and Report.
type RegistrarOptions struct {
	Client rest.Interface
	Hooks  []*hook.Hook
	// ConfigurationName is the prefix of the objects' name, which ends in "-hooks".
	ConfigurationName string
	Service           Service
	// URL is the address of the operator, as "https://host:port". Outside a cluster webhooks with a URL are removed when Run ends: no other
	// replica serves them. Inside they stay.
	URL    string
	Inside bool
	// AnyURL makes Remove accept every URL of a shell-operator, not only URL: outside a cluster the address and the
	// port of an operator that has ended are unknown. Then neither Service nor URL is required.
	AnyURL bool
	// Ready reports whether a hook can answer. The webhooks of others are neither added nor changed.
	Ready func(*hook.Hook) bool
	// Bundle returns the PEM of the CAs that the API server must trust; empty or nil means its own ones.
	Bundle func() []byte
	// Token returns the secret last segment of a registered path. Nil means that paths have none.
	Token func(path string) string
	// Changes return channels that are closed when Ready, Bundle or Token change.
	Changes []func() <-chan struct{}
	// Seen receives the paths or URLs in an object in the cluster, whenever it is read. Open means that a permission to read it is
	// missing: then the paths are those without a token.
	Seen func(configuration string, paths []string, open bool)
	// Leading is closed when this process registers; until then it only reads. Nil means from the beginning.
	Leading <-chan struct{}
	// CertManager is a Certificate of cert-manager, as "namespace/name". Then cert-manager injects the CAs, and Bundle is not
	// used.
	CertManager string
	// DefaultFailurePolicy is as in Options.
	DefaultFailurePolicy string
	// ExcludeNamespaces are not reviewed, unless the namespace selector of a binding has a term about the names of namespaces.
	ExcludeNamespaces []string
	// ExcludeUsers and ExcludeGroups are clients whose requests are not reviewed.
	ExcludeUsers, ExcludeGroups []string
	// Report receives why the webhooks of hooks cannot be registered, after each attempt; nil if they are, and at the end of Run.
	Report func(kind hook.Kind, hooks []string, configuration string, err error)
	// Served, if set, has the kinds of which this process has registered webhooks, with this Registrar or an earlier one.
	Served *sync.Map
	// DryRun makes Remove log what it would do.
	DryRun bool
	Log    *slog.Logger
}

// Registrar reconciles the webhook configurations in the cluster with the hooks' bindings.
type Registrar struct {
	opts    RegistrarOptions
	keepers []*keeper
}

// removeTimeout bounds the removal at the end.
const removeTimeout = 5 * time.Second

// NewRegistrar returns a Registrar. It sends no request.
func NewRegistrar(o RegistrarOptions) (*Registrar, error) {
	o.URL = strings.TrimSuffix(o.URL, "/")
	o.Served = cmp.Or(o.Served, &sync.Map{})
	all, err := plan(o.Hooks, o.DefaultFailurePolicy)
	if err != nil {
		return nil, err
	}
	r := &Registrar{opts: o}
	started := time.Now().UTC()
	for _, k := range []kind{validating, mutating} {
		r.keepers = append(r.keepers, newKeeper(&r.opts, k, all, started))
	}
	return r, nil
}

// ErrReplaced is the cause of a context of Run whose Registrar is replaced by another one: then nothing is removed.
var ErrReplaced = errors.New("another registrar follows")

// Run registers the webhooks of each hook when it is ready, and keeps them registered until ctx ends. Call it once. What fails is
// reported and tried again: what is registered stays. It removes or empties a configuration without bindings if it points to this operator.
func (r *Registrar) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	wait := kube.OnChange(ctx, func() {
		for _, k := range r.keepers {
			kube.Wake(k.wake)
		}
	}, append(r.opts.Changes, r.opts.led)...)
	for _, k := range r.keepers {
		all.Go(func() { k.run(ctx) })
	}
	all.Wait()
	cancel()
	wait()
	if r.opts.URL != "" && !r.opts.Inside && r.opts.led() == nil && !errors.Is(context.Cause(ctx), ErrReplaced) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		return r.Remove(last)
	}
	return nil
}

// led is closed when this process begins to register; nil if it does.
func (o *RegistrarOptions) led() <-chan struct{} {
	select {
	case <-o.Leading:
		return nil
	default:
		return o.Leading
	}
}

// checkTimeout bounds a check: an API server that cannot be reached does not keep the operator from starting.
const checkTimeout = 10 * time.Second

// Check returns why the API server would reject the webhooks of the hooks. It changes nothing.
func (r *Registrar) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs []error
	for _, k := range r.keepers {
		if len(k.webhooks) > 0 {
			errs = append(errs, k.check(ctx))
		}
	}
	return errors.Join(errs...)
}

// Remove deletes both configurations, or empties those that the operator has not created, if they point to the Service or URL, and no
// operator that started later has written them. It must not run concurrently with Run. Without the permission to list, it does nothing.
func (r *Registrar) Remove(ctx context.Context) error {
	var errs []error
	for _, k := range r.keepers {
		errs = append(errs, k.remove(ctx))
	}
	return errors.Join(errs...)
}

// Clear does the same as Remove, and retries until it has succeeded or ctx ends.
func (r *Registrar) Clear(ctx context.Context) {
	var all sync.WaitGroup
	for _, k := range r.keepers {
		all.Go(func() { k.clear(ctx) })
	}
	all.Wait()
}

// kind is one of the two kinds of configurations.
type kind struct {
	typ            event.Type
	name, resource string
	// value is that of the chart for the kind.
	value string
}

var (
	validating = kind{event.Validating, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "validating"}
	mutating   = kind{event.Mutating, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutating"}
)

// rule is the RBAC rule that a keeper needs for its object.
func (k *keeper) rule() string {
	return kube.Grant("", kube.Rule{Group: group, Resource: k.kind.resource, Names: []string{k.name},
		Verbs: []string{"list", "watch", "update"}})
}
