package cert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// ManagedOptions of a Managed Source. Client, Namespace, SecretName and Names are required.
type ManagedOptions struct {
	// Client is one of kube.NewClient.
	Client                rest.Interface
	Namespace, SecretName string
	// Names are the DNS names and IP addresses of the server.
	Names []string
	// Lifetime is that of a serving certificate, 90 days if zero. It is rotated after two thirds of it.
	Lifetime time.Duration
	// AuthorityLifetime is that of a CA, 10 years if zero. The next CA is created after two thirds of it.
	AuthorityLifetime time.Duration
	// Overlap is the time between adding a CA to the bundle and its first signature, one day if zero.
	Overlap time.Duration
	Log     *slog.Logger

	now func() time.Time
}

const (
	defaultLifetime          = 90 * 24 * time.Hour
	defaultAuthorityLifetime = 10 * 365 * 24 * time.Hour
	defaultOverlap           = 24 * time.Hour
	// shortestLifetime leaves time to replace a certificate.
	shortestLifetime = 3 * backdate
)

func (o *ManagedOptions) setDefaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Lifetime, defaultLifetime}, {&o.AuthorityLifetime, defaultAuthorityLifetime}, {&o.Overlap, defaultOverlap}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
}

// policy validates the options.
func (o *ManagedOptions) policy() (policy, error) {
	p := policy{lifetime: o.Lifetime, authorityLifetime: o.AuthorityLifetime, overlap: o.Overlap}
	for _, name := range o.Names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String() // as certificates write it
		}
		p.names = append(p.names, name)
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	switch {
	case len(p.names) == 0 || slices.Contains(p.names, ""):
		return policy{}, errors.New("a webhook certificate needs the names by which the API server reaches the operator, and none of them empty")
	case p.lifetime < shortestLifetime:
		return policy{}, fmt.Errorf("a webhook certificate cannot live for %s only: choose at least %s", p.lifetime, shortestLifetime)
	case p.authorityLifetime < 2*p.lifetime:
		return policy{}, fmt.Errorf("a CA that lives for %s is too short for certificates of %s: choose at least twice as long", p.authorityLifetime, p.lifetime)
	case p.overlap < 0 || p.overlap > p.authorityLifetime/4:
		return policy{}, fmt.Errorf("callers cannot have %s to learn of a CA that lives for %s: choose at most a quarter", p.overlap, p.authorityLifetime)
	}
	return p, nil
}

// Managed returns a Source that creates its CA and certificates and stores them in one Secret for all replicas. A deleted
// Secret is restored. A damaged one is replaced if the operator created it, and is an error otherwise. Managed waits for an
// API server that cannot be reached.
//
// To force a new CA, with overlap, remove the key ca.key from the Secret. To force a new certificate, remove tls.crt and
// tls.key.
//
// Without permissions on the Secret, Managed logs one warning that names them, and keeps the certificates in memory, which
// is correct for one replica only.
func Managed(ctx context.Context, o ManagedOptions) (Source, error) {
	o.setDefaults()
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	if o.Namespace == "" || o.SecretName == "" {
		return nil, errors.New("webhook certificates need the namespace of the operator and the name of a Secret to be kept in")
	}
	s := &secret{client: o.Client, namespace: o.Namespace, name: o.SecretName, log: o.Log}
	var retry delay
	var told trouble
	for {
		k, err := newKeeper(ctx, s, p, o.Log, o.now)
		switch {
		case err == nil:
			return k, nil
		case ctx.Err() != nil:
			return nil, err
		case apierrors.IsForbidden(err):
			o.Log.Warn("Webhook certificates cannot be kept in a Secret. They are created for this process, which is correct "+
				"for one replica only. Grant the permissions and restart", "error", err.Error())
			return inMemory(p, o.Log, o.now)
		case !passing(err):
			return nil, err
		}
		told.log(o.Log, "Webhook certificates have to wait for the API server", "", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retry.next()):
		}
	}
}

// passing reports whether an error is transient.
func passing(err error) bool {
	return errors.Is(err, errConflict) || unreachable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// InMemory returns a Source for one process, such as one outside a cluster. Names are DNS names and IP addresses.
func InMemory(names ...string) (Source, error) {
	o := ManagedOptions{Names: names}
	o.setDefaults()
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	return inMemory(p, o.Log, o.now)
}

func inMemory(p policy, log *slog.Logger, now func() time.Time) (Source, error) {
	k, err := newKeeper(context.Background(), &memory{}, p, log, now)
	if err != nil {
		return nil, err
	}
	return k, nil
}
