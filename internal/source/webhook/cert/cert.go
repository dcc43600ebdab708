// Package cert gives the webhook servers their certificates, and the secret of their paths.
//
// Callers may rely on this:
//   - A Source is complete when it is returned: it has a certificate and a bundle, or a secret of paths, or both.
//   - Renewal needs no restart. Open connections are not affected.
//   - All replicas with one Secret share one CA and the secret of paths. The first writer wins, the others adopt its state. Each process
//     signs a certificate of its own, and another one when half of its life is over.
//   - Files are re-read when they change; invalid ones are logged, and the previous ones stay in use.
//   - No log record and no error contains keys or the content of Secrets.
//
// A Source has one of three places: InSecret, Files of the user, and InMemory of one process. The first and the last have a secret of
// paths, too; PathsOfFile has nothing else. With cert-manager, use Files without a CA: the Bundle is empty, and the webhook configurations
// get the annotation cert-manager.io/inject-ca-from instead of a caBundle.
//
// Not supported: another CA while one can sign, key types other than ECDSA P-256, intermediate CAs, revocation.
package cert

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// Source provides a server's certificate, the CA that clients must trust, and the tokens of paths. It is safe for concurrent use.
type Source struct {
	// follow blocks until ctx ends.
	follow func(ctx context.Context) error
	// names are DNS names and IP addresses of the certificates that the Source signs.
	names []string

	mu sync.Mutex // guards what follows
	shown
}

// shown is what a Source has now.
type shown struct {
	// ca signs the certificate; nil where that is a file.
	ca, certificate *tls.Certificate
	bundle          []byte
	// secrets of paths: the current one, and the one before.
	secrets [2]string
	// changed is closed when bundle or the current secret is replaced by another one.
	changed chan struct{}
}

func newSource(names []string, follow func(context.Context) error) *Source {
	return &Source{names: names, follow: follow, shown: shown{changed: make(chan struct{})}}
}

// InMemory returns a Source for one process, such as one outside a cluster. Names are the DNS names and IP addresses of the server; without
// any there are no certificates, only the secret of paths.
func InMemory(names ...string) (*Source, error) {
	made := state{}
	if _, err := made.complete(time.Now(), len(names) > 0); err != nil {
		return nil, err
	}
	s := newSource(names, func(ctx context.Context) error { <-ctx.Done(); return nil })
	s.show(made.shown())
	return s, nil
}

func (s *Source) now() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// Run follows the place of the Source until ctx ends.
func (s *Source) Run(ctx context.Context) error { return s.follow(ctx) }

// Certificate is for tls.Config.GetCertificate.
func (s *Source) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.ca != nil && (s.certificate == nil || !fresh(s.certificate.Leaf, now)) {
		next, err := makeServing(now, s.ca, s.names)
		if err != nil {
			return nil, fmt.Errorf("cannot make a certificate: %w", err)
		}
		s.certificate = next
	}
	return s.certificate, nil
}

// Bundle is the PEM of the CAs that clients must trust; empty means that cert-manager injects it. Read-only.
func (s *Source) Bundle() []byte { return s.now().bundle }

// Changed returns a channel that is closed when Bundle or the tokens change. Call Changed before them, to miss no change.
func (s *Source) Changed() <-chan struct{} { return s.now().changed }

// show replaces what the Source has. A certificate that the same CA has signed stays.
func (s *Source) show(next shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sameCA := bytes.Equal(next.bundle, s.bundle)
	if next.certificate == nil && sameCA {
		next.certificate = s.certificate
	}
	if next.changed = s.changed; !sameCA || next.secrets[0] != s.secrets[0] {
		close(s.changed)
		next.changed = make(chan struct{})
	}
	s.shown = next
}
