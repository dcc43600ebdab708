package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"time"
)

// backdate makes certificates valid before their creation, for clients whose clocks are behind.
const backdate = 5 * time.Minute

// apply executes a decision. It does not modify s.
func apply(now time.Time, s state, d decision, p policy) (state, error) {
	s.authorities = slices.Clone(s.authorities)
	s.retired = slices.DeleteFunc(slices.Clone(s.retired), func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
	switch d.do {
	case addAuthority:
		a, err := makeAuthority(now, p.authorityLifetime)
		if err != nil {
			return state{}, fmt.Errorf("cannot make a CA: %w", err)
		}
		s.authorities = append(s.authorities, a)
		sortAuthorities(s.authorities)
	case issue:
		made, err := makeServing(now, s.authorities[d.authority], p.lifetime, namesFor(now, s.serving, p.names))
		if err != nil {
			return state{}, fmt.Errorf("cannot make a certificate: %w", err)
		}
		if s.serving != nil && now.Before(s.serving.cert.NotAfter) {
			s.retired = append(s.retired, s.serving.cert)
		}
		s.serving = made
		// An unused key is a risk without a benefit.
		for i := range s.authorities[:d.authority] {
			s.authorities[i].key = nil
		}
	case dropAuthority:
		s.authorities = slices.Delete(s.authorities, d.authority, d.authority+1)
	}
	return s, nil
}

// sortAuthorities gives all replicas the same order, and thus the same bundle.
func sortAuthorities(as []authority) {
	slices.SortStableFunc(as, func(a, b authority) int { return a.cert.NotBefore.Compare(b.cert.NotBefore) })
}

// namesFor are the names of a new certificate. Replicas with different names, during the change to another Service, would
// replace each other's certificate, so names are dropped only by a rotation because of age.
func namesFor(now time.Time, old *serving, names []string) []string {
	if old == nil || !now.Before(due(old.cert)) {
		return names
	}
	names = slices.Concat(names, namesOf(old.cert))
	slices.Sort(names)
	return slices.Compact(names)
}

func makeAuthority(now time.Time, lifetime time.Duration) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	now = now.UTC().Truncate(time.Second)
	template := &x509.Certificate{
		// The names of CAs are unique, for programs that look up an issuer by name.
		Subject:   pkix.Name{CommonName: "shell-operator webhooks " + now.Format(time.RFC3339)},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := sign(template, template, &key.PublicKey, key)
	return authority{cert, key}, err
}

// makeServing creates a certificate that expires with its CA at the latest.
func makeServing(now time.Time, by authority, lifetime time.Duration, names []string) (*serving, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now = now.UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "shell-operator webhook server"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	template.DNSNames, template.IPAddresses = splitNames(names)
	cert, err := sign(template, by.cert, &key.PublicKey, by.key)
	return &serving{cert, key}, err
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, private *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, private)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
