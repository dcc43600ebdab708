package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"time"
)

// state is what replicas share.
type state struct {
	// authority is the CA that clients must trust, and serving what it signed for the servers. Both are nil where certificates are files.
	authority, serving *pair
	// secrets are those of paths: the current one, and the one before, which may be empty.
	secrets [2]string
}

// pair is a certificate with its key, which is nil when it is lost.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (s state) usable() bool { return s.secrets[0] != "" }

// certificate is the serving certificate for crypto/tls, or nil.
func (s state) certificate() *tls.Certificate {
	if s.serving == nil {
		return nil
	}
	return &tls.Certificate{Certificate: [][]byte{s.serving.cert.Raw}, PrivateKey: s.serving.key, Leaf: s.serving.cert}
}

func validAt(c *x509.Certificate, t time.Time) bool {
	return !t.Before(c.NotBefore) && t.Before(c.NotAfter)
}

const (
	lifetime          = 90 * 24 * time.Hour
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// backdate makes certificates valid before their creation, for clients whose clocks are behind.
	backdate = 5 * time.Minute
)

// plan returns the state that should be, and why it differs. Names must all be in the serving certificate; without any there is none.
func plan(now time.Time, s state, names []string) (_ state, why []string, err error) {
	if s.secrets[0] == "" {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // never fails
		s.secrets[0] = hex.EncodeToString(secret[:])
		why = append(why, "there is no secret of the paths")
	}
	if len(names) == 0 {
		return s, why, nil
	}
	if reason := s.lacksAuthority(now); reason != "" {
		if s.authority, err = makeAuthority(now); err != nil {
			return s, nil, fmt.Errorf("cannot make a CA: %w", err)
		}
		s.serving, why = nil, append(why, reason)
	}
	if reason := s.lacksServing(now, names); reason != "" {
		if s.serving != nil && now.Before(due(s.serving.cert)) {
			// Replicas with different names, during the change to another Service, would replace each other's certificate.
			names = slices.Concat(names, namesOf(s.serving.cert))
			slices.Sort(names)
			names = slices.Compact(names)
		}
		if s.serving, err = makeServing(now, s.authority, names); err != nil {
			return s, nil, fmt.Errorf("cannot make a certificate: %w", err)
		}
		why = append(why, reason)
	}
	return s, why, nil
}

// lacksAuthority returns why there must be another CA. It outlives all that it signs.
func (s state) lacksAuthority(now time.Time) string {
	switch {
	case s.authority == nil || s.authority.key == nil:
		return "there is no CA that can sign"
	case !validAt(s.authority.cert, now.Add(lifetime)) || !validAt(s.authority.cert, now):
		return "the life of the CA is over"
	}
	return ""
}

func (s state) lacksServing(now time.Time, names []string) string {
	switch {
	case s.serving == nil:
		return "there is no usable certificate"
	case !validAt(s.serving.cert, now):
		return "the certificate is not valid now"
	case !now.Before(due(s.serving.cert)):
		return "half of the life of the certificate is over"
	case slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(namesOf(s.serving.cert), name) }):
		return "the certificate lacks a name"
	}
	return ""
}

// due is when a certificate is replaced.
func due(c *x509.Certificate) time.Time { return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 2) }

func namesOf(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

func makeAuthority(now time.Time) (*pair, error) {
	now = now.UTC().Truncate(time.Second)
	return sign(nil, &x509.Certificate{
		// The names of CAs are unique, for programs that look up an issuer by name.
		Subject:   pkix.Name{CommonName: "shell-operator webhooks " + now.Format(time.RFC3339)},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	})
}

func makeServing(now time.Time, by *pair, names []string) (*pair, error) {
	now = now.UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "shell-operator webhook server"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(by, template)
}

// sign makes a key and its certificate, which signs itself if by is nil.
func sign(by *pair, template *x509.Certificate) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = &pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &pair{cert, key}, err
}

// signed reports whether a CA has signed a certificate.
func (p *pair) signed(c *x509.Certificate) bool {
	return p != nil && bytes.Equal(c.AuthorityKeyId, p.cert.SubjectKeyId) && c.CheckSignatureFrom(p.cert) == nil
}
