package cert

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
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

// renewEvery is short beside the life of a certificate: timers stop while a machine is suspended.
const renewEvery = time.Hour

// managed is a Source whose state is in a Secret. The constructor owns the state, and then Run.
type managed struct {
	Source
	ManagedOptions
	state state
}

// Managed returns a Source that creates its CA, certificates and the secret of paths, and stores them in one Secret for all replicas. A
// Secret that is deleted or emptied is restored. Managed waits for an API server that cannot be reached.
//
// To force a new CA, remove the key ca.key from the Secret; for a new certificate, tls.crt and tls.key. For a new secret of paths, move
// path.secret to path.previous.
//
// Without permissions on the Secret, Managed logs one warning that names them, and keeps the certificates in memory, which
// is correct for one replica only.
func Managed(ctx context.Context, o ManagedOptions) (*Source, error) {
	var err error
	if o.Names, err = clean(o.Names); err != nil {
		return nil, err
	}
	if o.Namespace == "" || o.SecretName == "" {
		return nil, errors.New("webhook certificates need the namespace of the operator and the name of a Secret to be kept in")
	}
	m := &managed{ManagedOptions: o}
	kept := &keep.Object{
		One:       kube.One{Client: o.Client, Path: []string{"/api/v1/namespaces", o.Namespace, "secrets"}, Name: o.SecretName},
		Reconcile: m.reconcile, Report: func(error) {}, Explain: m.explain, Every: renewEvery, Log: o.Log,
		Failed: "Webhook certificates cannot be kept fresh, the last ones stay in use. Will retry after delay.",
	}
	m.changed, m.rotate = make(chan struct{}), func(ctx context.Context) error { kept.Run(ctx); return nil }
	for failures := 1; ; failures++ {
		err := kept.Attempt(ctx)
		switch {
		case m.state.secrets[0] != "": // where it may not write, it uses the state of other replicas, and Run logs the error
			return &m.Source, nil
		case ctx.Err() != nil, errors.As(err, new(*foreignError)), apierrors.IsNotFound(err), apierrors.IsInvalid(err):
			return nil, err
		case apierrors.IsForbidden(err):
			o.Log.Warn("Webhook certificates cannot be kept in a Secret. They are created for this process, which is correct "+
				"for one replica only. Grant the permissions and restart", "error", err.Error())
			return InMemory(o.Names...)
		}
		delay := keep.RetryDelay(failures)
		o.Log.Warn("Webhook certificates have to wait for the API server", "error", err.Error(), "delay", delay.String())
		kube.Wait(ctx, delay, nil)
	}
}

// reconcile adopts the state in the Secret, and renews it where that is due.
func (m *managed) reconcile(ctx context.Context) error {
	live, err := m.read(ctx)
	if err != nil {
		return err
	}
	// Without a state in the Secret, this process keeps its own, so that clients do not notice. An empty Secret belongs to the operator,
	// so that it needs no permission to create Secrets, which RBAC cannot limit to one name.
	found, lost := m.state, live == nil || empty(live.Data)
	if !lost {
		if live.Labels[ownerLabel] != owner && len(live.Data[pathKey]) == 0 {
			return &foreignError{m.Namespace, m.SecretName}
		}
		found = decode(live.Data)
	}
	next, why, err := plan(time.Now(), found, m.Names)
	if err != nil {
		return err
	}
	if lost && m.state.secrets[0] != "" {
		why = append(why, "they were deleted")
	}
	if len(why) > 0 {
		if err := m.write(ctx, live, next); err != nil {
			m.take(found) // the state of other replicas is valid nevertheless
			return err
		}
	}
	for _, reason := range why {
		m.Log.Info("Webhook certificates changed", "reason", reason)
	}
	m.take(next)
	return nil
}

// take makes a state current if it is complete.
func (m *managed) take(s state) {
	certified := len(m.Names) == 0 || s.serving != nil && validAt(s.serving.Leaf, time.Now())
	if s.secrets[0] != "" && certified {
		m.state = s
		m.show(s.serving, s.bundle(), s.secrets)
	}
}

func empty(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// InMemory returns a Source for one process, such as one outside a cluster. Given are DNS names and IP addresses, as in ManagedOptions.
func InMemory(given ...string) (*Source, error) {
	names, err := clean(given)
	if err != nil {
		return nil, err
	}
	s, current := &Source{shown: shown{changed: make(chan struct{})}}, state{}
	renew := func() (err error) {
		if current, _, err = plan(time.Now(), current, names); err == nil {
			s.show(current.serving, current.bundle(), current.secrets)
		}
		return err
	}
	s.rotate = func(ctx context.Context) error {
		for kube.Wait(ctx, renewEvery, nil) {
			if err := renew(); err != nil {
				return err
			}
		}
		return nil
	}
	return s, renew()
}
