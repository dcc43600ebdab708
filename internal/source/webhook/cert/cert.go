// Package cert gives the webhook servers their certificates.
//
// Callers may rely on this:
//   - A Source is complete when it is returned: it has a certificate and a bundle.
//   - Rotation needs no restart and happens before expiry. Open connections are not affected.
//   - Clients that trust the Bundle, and learn of a new one within the overlap, never see a certificate that they do
//     not trust: a CA is in the Bundle before it signs, and as long as anything that it signed is valid.
//   - All replicas with one Secret share one CA and one certificate. The first writer wins, the others adopt its state.
//   - No log record and no error contains keys or the content of Secrets.
//   - Replicas with the same private key agree on the token of a path. It changes with the key, and the last one stays valid.
//
// There are three kinds of Source: Files of the user, certificates Managed in a Secret, and InMemory for one process. With
// cert-manager, use Files without a CA: the Bundle is empty, and the webhook configurations get the annotation
// cert-manager.io/inject-ca-from instead of a caBundle.
//
// Not supported: key types other than ECDSA P-256, intermediate CAs, revocation. If another client replaces the CA in the
// Secret, the replicas adopt it immediately, without an overlap.
package cert

import (
	"bytes"
	"context"
	"crypto/tls"
	"sync"
)

// Source provides a server's certificate and the CAs that clients must trust. It is safe for concurrent use.
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
	// keys are those of tokens: the current one, and the one before.
	keys [2][]byte
	// changed is closed when bundle or the current key is replaced by another one.
	changed chan struct{}
}

func (s *Source) now() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// Run rotates certificates until ctx ends.
func (s *Source) Run(ctx context.Context) error { return s.rotate(ctx) }

// Certificate is for tls.Config.GetCertificate.
func (s *Source) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.now().certificate, nil
}

// Bundle is the PEM of the CAs that clients must trust; empty means that cert-manager injects it. Read-only.
func (s *Source) Bundle() []byte { return s.now().bundle }

// Changed returns a channel that is closed when Bundle or the tokens change. Call Changed before them, to miss no change.
func (s *Source) Changed() <-chan struct{} { return s.now().changed }

func (s *Source) show(certificate *tls.Certificate, bundle []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificate = certificate
	key := tokenKey(certificate)
	sameKey := bytes.Equal(key, s.keys[0])
	if !sameKey {
		s.keys = [2][]byte{key, s.keys[0]}
	}
	if sameKey && bytes.Equal(bundle, s.bundle) {
		return
	}
	s.bundle = bundle
	close(s.changed)
	s.changed = make(chan struct{})
}
