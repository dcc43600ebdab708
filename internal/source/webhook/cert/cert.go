// Package cert gives the webhook servers their certificates.
//
// Callers may rely on this:
//   - A Source is complete when it is returned: it has a certificate, and knows what callers must trust.
//   - A certificate is replaced without a restart, and before it expires. Connections that are open go on.
//   - Callers that trust the Bundle, and hear of a new one within the overlap, never see a certificate that they do
//     not trust: a CA is in the Bundle before it signs, and as long as anything that it signed is valid.
//   - All replicas with one Secret have one CA and one certificate. The first writer wins, the others take what it wrote.
//   - Keys and the content of Secrets are in no log line and in no error.
//
// Three kinds of Source: Files that the user brings, certificates that are Managed in a Secret, and InMemory for one
// process. With cert-manager, use Files without a CA: its Bundle is empty, and whoever writes the webhook configurations
// writes the annotation InjectCAFrom instead of a caBundle.
//
// Not attempted: key types other than ECDSA P-256, intermediate CAs, revocation. A Secret whose CA somebody replaces by
// a valid other one is followed at once, without an overlap.
package cert

import (
	"bytes"
	"context"
	"crypto/tls"
	"sync"
)

// InjectCAFrom is the annotation that makes cert-manager's CA injector fill in caBundle. Its value is
// "<namespace>/<name>" of a Certificate of cert-manager.
const InjectCAFrom = "cert-manager.io/inject-ca-from"

// Source gives a server its certificate and tells what callers must trust. It is safe for concurrent use.
type Source interface {
	// Certificate is for tls.Config.GetCertificate.
	Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle is the PEM of the CAs that callers must trust now; empty means that somebody else fills it in
	// (cert-manager). It is not to be changed.
	Bundle() []byte
	// Changed is closed when Bundle is no longer the one that was current when Changed was called. To miss nothing,
	// call Changed first and Bundle then.
	Changed() <-chan struct{}
	// Run keeps certificates fresh until ctx ends.
	Run(ctx context.Context) error
}

// shown is what a Source shows at the moment.
type shown struct {
	mu          sync.Mutex // guards what follows
	certificate *tls.Certificate
	bundle      []byte
	// changed is closed when bundle is replaced by another one.
	changed chan struct{}
}

// Certificate implements Source.
func (s *shown) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificate, nil
}

// Bundle implements Source.
func (s *shown) Bundle() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bundle
}

// Changed implements Source.
func (s *shown) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *shown) show(certificate *tls.Certificate, bundle []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificate = certificate
	if bytes.Equal(bundle, s.bundle) {
		return
	}
	s.bundle = bundle
	close(s.changed)
	s.changed = make(chan struct{})
}
