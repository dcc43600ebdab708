package admission

import (
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

// Service is where the API server finds the operator inside a cluster, at port 443.
type Service struct{ Name, Namespace string }

// RegistrarOptions are those of a Registrar. Client, ConfigurationName and Log are required, and either Service or URL.
type RegistrarOptions struct {
	Client rest.Interface
	Hooks  []*hook.Hook
	// ConfigurationName is the beginning of the objects' name, which ends in "-hooks".
	ConfigurationName string
	Service           Service
	// URL is the address of the operator outside of a cluster, as "https://host:port". What is registered by URL is
	// removed when Run ends: nobody else would answer there.
	URL string
	// AnyURL makes Remove accept every URL of a shell-operator, not only URL: outside a cluster the address and the port of
	// an operator that is gone are not known. Then neither Service nor URL is required.
	AnyURL bool
	// Bundle returns the PEM of the CAs that the API server is to trust; empty or nil means those that it trusts anyway.
	Bundle func() []byte
	// BundleChanged returns a channel that is closed when Bundle is no longer what it was at the time of the call.
	// Nil means that it stays.
	BundleChanged func() <-chan struct{}
	// CertManager is a Certificate of cert-manager, as "namespace/name". When it is set, cert-manager's CA injector
	// writes the CAs, and Bundle is not asked.
	CertManager string
	// DefaultFailurePolicy is as in Options.
	DefaultFailurePolicy string
	Log                  *slog.Logger
}

// Registrar keeps the webhook configurations in the cluster as the hooks' bindings say.
type Registrar struct {
	opts       RegistrarOptions
	keepers    []*keeper
	registered chan struct{}
}

// removeTimeout is how long the removal at the end may take.
const removeTimeout = 5 * time.Second

// NewRegistrar returns a Registrar that has done nothing yet.
func NewRegistrar(o RegistrarOptions) (*Registrar, error) {
	o.URL = strings.TrimSuffix(o.URL, "/")
	if o.URL == "" && o.Service.Namespace == "" && !o.AnyURL {
		return nil, errors.New("cannot register webhooks: the namespace of the operator's Service is not known: set SHELL_OPERATOR_NAMESPACE, or register by URL with --webhook-url")
	}
	all, err := plan(o.Hooks, o.DefaultFailurePolicy)
	if err != nil {
		return nil, err
	}
	r := &Registrar{opts: o, registered: make(chan struct{})}
	started := time.Now().UTC()
	for _, k := range []kind{validating, mutating} {
		r.keepers = append(r.keepers, newKeeper(&r.opts, k, all, started))
	}
	return r, nil
}

// Registered is closed when all webhooks have been registered for the first time.
func (r *Registrar) Registered() <-chan struct{} { return r.registered }

// ErrReplaced is the cause with which the context of Run ends when another Registrar follows at once: then nothing is
// removed.
var ErrReplaced = errors.New("another registrar follows")

// Run registers the webhooks, and keeps them registered until ctx ends. It fails when the first registration does. It
// is to be called once.
//
// A configuration for which there are no bindings is removed if it was ours.
func (r *Registrar) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(r.keepers))
	var all sync.WaitGroup
	for i, k := range r.keepers {
		all.Go(func() {
			if errs[i] = k.run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	all.Go(func() { r.awaitFirst(ctx) })
	all.Wait()
	err := errors.Join(errs...)
	if r.opts.URL != "" && !errors.Is(context.Cause(ctx), ErrReplaced) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		err = errors.Join(err, r.Remove(last))
	}
	return err
}

func (r *Registrar) awaitFirst(ctx context.Context) {
	for _, k := range r.keepers {
		select {
		case <-k.ready:
		case <-ctx.Done():
			return
		}
	}
	close(r.registered)
}

// Remove removes both configurations, if they are ours: they lead to the same Service or URL, and no operator that
// started later has written them. It is not to be called while Run runs. Where the permission to look is missing, it
// does nothing.
func (r *Registrar) Remove(ctx context.Context) error {
	var errs []error
	for _, k := range r.keepers {
		errs = append(errs, k.remove(ctx))
	}
	return errors.Join(errs...)
}

// kind is one of the two kinds of configurations.
type kind struct {
	typ            event.Type
	name, resource string
}

var (
	validating = kind{event.Validating, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"}
	mutating   = kind{event.Mutating, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"}
)

// rule is the RBAC rule that a Registrar needs for the kind.
func (k kind) rule() string {
	return kube.Grant("", kube.Rule{Group: group, Resource: k.resource, Verbs: []string{"list", "watch", "create", "update", "delete"}})
}
