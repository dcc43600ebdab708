package conversion

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// RegistrarOptions of a Registrar. All are required, but for Token, Changes, Leading and CertManager; and either Service or URL.
type RegistrarOptions struct {
	Client rest.Interface
	Hooks  []*hook.Hook
	// Service is that of the Handler inside a cluster, URL its base URL elsewhere.
	Service Service
	URL     string
	// Ready reports whether a hook can answer. A CRD is left as it is until all hooks that convert its objects can.
	Ready func(*hook.Hook) bool
	// Bundle returns the PEM of the CAs that the API server must trust. While it is empty, caBundle is not changed.
	Bundle func() []byte
	// Token returns the secret last segment of a registered path. Nil means that paths have none.
	Token func(path string) string
	// Changes return channels that are closed when Ready, Bundle or Token change.
	Changes []func() <-chan struct{}
	// Seen receives the path or URL in a CRD, whenever it is read. Open means that a permission to read it is missing: then the
	// path is that without a token.
	Seen func(crd string, paths []string, open bool)
	// Leading is closed when this process registers; until then it only reads. Nil means from the beginning.
	Leading <-chan struct{}
	// CertManager is the "<namespace>/<name>" of a Certificate of cert-manager, which then fills in caBundle.
	CertManager string
	// Report receives why hooks do not convert the objects of a CRD, after each attempt; nil if they do, and at the end of Run.
	Report func(hooks []string, crd string, err error)
	Log    *slog.Logger
}

// Registrar reconciles spec.conversion of CRDs.
type Registrar struct {
	opts RegistrarOptions
	// crds are the names, sorted.
	crds []string
	// forbidden logs once for all CRDs.
	forbidden sync.Once
}

// NewRegistrar returns a Registrar. It sends no request.
func NewRegistrar(o RegistrarOptions) *Registrar {
	return &Registrar{opts: o, crds: slices.Sorted(maps.Keys(stepsByCRD(o.Hooks)))}
}

// Run reconciles until ctx ends. Errors of one CRD are logged and retried, and do not block the others. The Handler must be
// reachable before.
func (r *Registrar) Run(ctx context.Context) error {
	var followers []*follower
	for _, name := range r.crds {
		followers = append(followers, newFollower(r, name))
	}
	defer kube.OnChange(ctx, func() {
		for _, f := range followers {
			kube.Wake(f.wake)
		}
	}, append(r.opts.Changes, r.led)...)()
	var following sync.WaitGroup
	defer following.Wait()
	for _, f := range followers {
		following.Go(func() { f.run(ctx) })
	}
	return nil
}

// lookTimeout bounds the first reading: an API server that cannot be reached does not keep the operator from starting.
const lookTimeout = 10 * time.Second

// Look reads the CRDs once, for Seen. What fails is read again by Run.
func (r *Registrar) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for _, name := range r.crds {
		_, _ = r.look(ctx, name)
	}
}

// look returns the definition of a CRD, or nil if there is none, and reports its path.
func (r *Registrar) look(ctx context.Context, name string) (definition []byte, err error) {
	definition, err = r.readCRD(ctx, name)
	var paths []string
	switch {
	case apierrors.IsForbidden(err):
		paths = []string{"/" + name}
	case err != nil:
		return nil, err
	case definition != nil:
		paths = pathsOf(definition)
	}
	r.opts.Seen(name, paths, err != nil)
	return definition, err
}

// led is closed when this process begins to register; nil if it does.
func (r *Registrar) led() <-chan struct{} {
	select {
	case <-r.opts.Leading:
		return nil
	default:
		return r.opts.Leading
	}
}

// missing logs once which permission is missing, and its consequences.
func (r *Registrar) missing(err error) {
	r.forbidden.Do(func() {
		r.opts.Log.Warn("No permission for the CRDs of conversion hooks: without it, edits and new CRDs are noticed late",
			"hint", hint(r.crds), "error", err.Error())
	})
}
