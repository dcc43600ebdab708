package cert

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// ManagedOptions of a Managed Source. All but Names are required.
type ManagedOptions struct {
	// Client is one of kube.NewClient.
	Client                rest.Interface
	Namespace, SecretName string
	// Names are the DNS names and IP addresses of the server. Without any there are no certificates, only the secret of paths.
	Names []string
	Log   *slog.Logger
}

// clean returns the names of a server as certificates have them.
func clean(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		all = append(all, name)
	}
	slices.Sort(all)
	if slices.Contains(all, "") {
		return nil, errors.New("a webhook certificate needs the names by which the API server reaches the operator, none of them empty")
	}
	return slices.Compact(all), nil
}

// Managed returns a Source that creates its CA, certificates and the secret of paths, and stores them in one Secret for all replicas. A
// deleted Secret is restored. A damaged one is replaced if the operator created it, and is an error otherwise. Managed waits for an
// API server that cannot be reached.
//
// To force a new CA, remove the key ca.key from the Secret; for a new certificate, tls.crt and tls.key. For a new secret of paths, move
// path.secret to path.previous.
//
// Without permissions on the Secret, Managed logs one warning that names them, and keeps the certificates in memory, which
// is correct for one replica only.
func Managed(ctx context.Context, o ManagedOptions) (*Source, error) {
	names, err := clean(o.Names)
	if err != nil {
		return nil, err
	}
	if o.Namespace == "" || o.SecretName == "" {
		return nil, errors.New("webhook certificates need the namespace of the operator and the name of a Secret to be kept in")
	}
	s := &secret{client: o.Client, namespace: o.Namespace, name: o.SecretName, log: o.Log}
	var retry delay
	var reported trouble
	for {
		k, err := newKeeper(ctx, s, names, o.Log)
		switch {
		case err == nil:
			return &k.Source, nil
		case ctx.Err() != nil:
			return nil, err
		case apierrors.IsForbidden(err):
			o.Log.Warn("Webhook certificates cannot be kept in a Secret. They are created for this process, which is correct "+
				"for one replica only. Grant the permissions and restart", "error", err.Error())
			return inMemory(names, o.Log)
		case !passing(err):
			return nil, err
		}
		reported.log(o.Log, "Webhook certificates have to wait for the API server", "", err)
		if !kube.Wait(ctx, retry.next(), nil) {
			return nil, err
		}
	}
}

// passing reports whether an error is transient.
func passing(err error) bool {
	return errors.Is(err, errConflict) || unreachable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// InMemory returns a Source for one process, such as one outside a cluster. Given are DNS names and IP addresses, as in ManagedOptions.
func InMemory(given ...string) (*Source, error) {
	names, err := clean(given)
	if err != nil {
		return nil, err
	}
	return inMemory(names, slog.New(slog.DiscardHandler))
}

func inMemory(names []string, log *slog.Logger) (*Source, error) {
	k, err := newKeeper(context.Background(), &memory{}, names, log)
	if err != nil {
		return nil, err
	}
	return &k.Source, nil
}
