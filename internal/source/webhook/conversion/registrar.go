package conversion

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// RegistrarOptions say which CRDs are pointed where. Client, Hooks and Log are required, and either Service or URL.
type RegistrarOptions struct {
	Client rest.Interface
	Hooks  []*hook.Hook
	// Service is where the Handler is inside the cluster. URL is its base when it is elsewhere.
	Service Service
	URL     string
	// Bundle is the PEM of the CAs that the API server has to trust. While it is empty or nil, caBundle stays as it is.
	Bundle func() []byte
	// BundleChanged returns a channel that is closed when Bundle is no longer what it was. Nil means never.
	BundleChanged func() <-chan struct{}
	// CertManager is the "<namespace>/<name>" of a Certificate of cert-manager, which then fills in caBundle.
	CertManager string
	Log         *slog.Logger
}

// Registrar keeps spec.conversion of CRDs as they have to be.
type Registrar struct {
	opts RegistrarOptions
	// crds are the names, sorted.
	crds []string
	// forbidden is said once, for all CRDs.
	forbidden sync.Once
}

// NewRegistrar returns a Registrar. It fails when the API server could not be told where we are.
func NewRegistrar(o RegistrarOptions) (*Registrar, error) {
	if o.Bundle == nil {
		o.Bundle = func() []byte { return nil }
	}
	if o.BundleChanged == nil {
		o.BundleChanged = func() <-chan struct{} { return nil }
	}
	if err := checkTarget(&o); err != nil {
		return nil, err
	}
	return &Registrar{opts: o, crds: slices.Sorted(maps.Keys(stepsByCRD(o.Hooks)))}, nil
}

// Run works until ctx ends. What is wrong with one CRD is logged and tried again, and does not hold up the others.
// The Handler has to be reachable before.
func (r *Registrar) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	var followers []*follower
	for _, name := range r.crds {
		f := newFollower(r, name)
		followers = append(followers, f)
		following.Go(func() { f.run(ctx) })
	}
	for {
		changed := r.opts.BundleChanged() // before anybody looks at the bundle
		for _, f := range followers {
			f.wake()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// missing says once which permission is missing, and what does not work without it.
func (r *Registrar) missing(err error) {
	r.forbidden.Do(func() {
		r.opts.Log.Warn("No permission for the CRDs of conversion hooks: without it, edits are not put back, and CRDs that come later are found late",
			"hint", hint(r.crds), "error", err.Error())
	})
}
