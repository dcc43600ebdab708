// Package cert gives the webhook servers their certificates, and the secret of their paths.
//
// Callers may rely on this:
//   - A Source is complete when it is returned: it has a certificate and a bundle, or a secret of paths, or both.
//   - Renewal needs no restart and happens at half of the life. Open connections are not affected. The CA stays, so that clients
//     trust each certificate.
//   - All replicas with one Secret share one CA, one certificate and the secret of paths, which does not change with certificates.
//     The first writer wins, the others adopt its state.
//   - No log record and no error contains keys or the content of Secrets.
//
// There are three kinds of Source with certificates: Files of the user, Managed in a Secret, and InMemory for one process. The last two
// have a secret of paths, too; PathsOfFile has nothing else. With cert-manager, use Files without a CA: the Bundle is empty, and the
// webhook configurations get the annotation cert-manager.io/inject-ca-from instead of a caBundle.
//
// Not supported: key types other than ECDSA P-256, intermediate CAs, revocation, another CA without an interruption of seconds.
package cert

import (
	"bytes"
	"context"
	"crypto/tls"
	"sync"
)

// Source provides a server's certificate, the CA that clients must trust, and the tokens of paths. It is safe for concurrent use.
type Source struct {
	// rotate blocks until ctx ends.
	rotate func(ctx context.Context) error

	mu sync.Mutex // guards what follows
	shown
}

// shown is what a Source has now.
type shown struct {
	certificate *tls.Certificate
	bundle      []byte
	// secrets of paths: the current one, and the one before.
	secrets [2]string
	// changed is closed when bundle or the current secret is replaced by another one.
	changed chan struct{}
}

func (s *Source) now() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// Run renews certificates until ctx ends.
func (s *Source) Run(ctx context.Context) error { return s.rotate(ctx) }

// Certificate is for tls.Config.GetCertificate.
func (s *Source) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.now().certificate, nil
}

// Bundle is the PEM of the CAs that clients must trust; empty means that cert-manager injects it. Read-only.
func (s *Source) Bundle() []byte { return s.now().bundle }

// Changed returns a channel that is closed when Bundle or the tokens change. Call Changed before them, to miss no change.
func (s *Source) Changed() <-chan struct{} { return s.now().changed }

func (s *Source) show(certificate *tls.Certificate, bundle []byte, secrets [2]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := bytes.Equal(bundle, s.bundle) && secrets[0] == s.secrets[0]
	s.certificate, s.bundle, s.secrets = certificate, bundle, secrets
	if !same {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
