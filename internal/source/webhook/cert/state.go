package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"
)

// state is what replicas share.
type state struct {
	// authority is the CA that clients must trust, and serving what it signed for the servers. Both are nil where certificates are files.
	authority, serving *tls.Certificate
	// secrets of paths: the current one, and the one before, which may be empty.
	secrets [2]string
}

// The keys of the Secret. Those of certificates are conventional, so that monitoring tools for certificates find them.
const (
	bundleKey         = "ca.crt"
	authorityKeyKey   = "ca.key"
	servingKey        = "tls.crt"
	servingPrivateKey = "tls.key"
	// pathKey has the secret of paths, previousPathKey the one before.
	pathKey         = "path.secret"
	previousPathKey = "path.previous"
)

// bundle is the PEM of the CA that clients must trust.
func (s state) bundle() []byte {
	if s.authority == nil {
		return nil
	}
	return pemOf(s.authority.Leaf)
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func (s state) encode() (map[string][]byte, error) {
	data := map[string][]byte{pathKey: []byte(s.secrets[0])}
	if s.secrets[1] != "" {
		data[previousPathKey] = []byte(s.secrets[1])
	}
	if s.serving == nil {
		return data, nil
	}
	data[bundleKey], data[servingKey] = s.bundle(), pemOf(s.serving.Leaf)
	for key, p := range map[string]*tls.Certificate{authorityKeyKey: s.authority, servingPrivateKey: s.serving} {
		der, err := x509.MarshalPKCS8PrivateKey(p.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("cannot write a key: %w", err)
		}
		data[key] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return data, nil
}

// decode parses what encode wrote, or as much of it as is valid. What is missing is created again.
func decode(data map[string][]byte) state {
	s := state{secrets: [2]string{string(data[pathKey]), string(data[previousPathKey])}}
	authority, err := tls.X509KeyPair(data[bundleKey], data[authorityKeyKey])
	if err != nil || !authority.Leaf.IsCA {
		return s
	}
	s.authority = &authority
	serving, err := tls.X509KeyPair(data[servingKey], data[servingPrivateKey])
	if err == nil && serving.Leaf.CheckSignatureFrom(authority.Leaf) == nil {
		s.serving = &serving
	}
	return s
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
		if s.serving != nil && now.Before(due(s.serving.Leaf)) {
			// Replicas with different names, during the change to another Service, would replace each other's certificate.
			names = slices.Concat(names, namesOf(s.serving.Leaf))
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
	case s.authority == nil:
		return "there is no CA that can sign"
	case !validAt(s.authority.Leaf, now.Add(lifetime)) || !validAt(s.authority.Leaf, now):
		return "the life of the CA is over"
	}
	return ""
}

func (s state) lacksServing(now time.Time, names []string) string {
	switch {
	case s.serving == nil:
		return "there is no usable certificate"
	case !validAt(s.serving.Leaf, now):
		return "the certificate is not valid now"
	case !now.Before(due(s.serving.Leaf)):
		return "half of the life of the certificate is over"
	case slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(namesOf(s.serving.Leaf), name) }):
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

func makeAuthority(now time.Time) (*tls.Certificate, error) {
	now = now.UTC().Truncate(time.Second)
	return sign(nil, &x509.Certificate{
		// The names of CAs are unique, for programs that look up an issuer by name.
		Subject:   pkix.Name{CommonName: "shell-operator webhooks " + now.Format(time.RFC3339)},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	})
}

func makeServing(now time.Time, by *tls.Certificate, names []string) (*tls.Certificate, error) {
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
func sign(by *tls.Certificate, template *x509.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if by == nil {
		by = &tls.Certificate{Leaf: template, PrivateKey: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
