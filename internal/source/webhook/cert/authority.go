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
	"time"
)

// state is what replicas share.
type state struct {
	// ca signs the certificates; nil where they are files.
	ca *tls.Certificate
	// secrets of paths: the current one, and the one before, which may be empty.
	secrets [2]string
}

// The keys of the Secret.
const (
	caKey        = "ca.crt"
	caPrivateKey = "ca.key"
	// pathKey has the secret of paths, previousPathKey the one before.
	pathKey         = "path.secret"
	previousPathKey = "path.previous"
)

// complete adds what is missing, and returns the reasons.
func (s *state) complete(now time.Time, signs bool) (why []string, err error) {
	if s.secrets[0] == "" {
		var secret [32]byte
		_, _ = rand.Read(secret[:]) // never fails
		s.secrets[0] = hex.EncodeToString(secret[:])
		why = append(why, "there is no secret of the paths")
	}
	if signs && s.ca == nil {
		if s.ca, err = makeAuthority(now); err != nil {
			return nil, fmt.Errorf("cannot make a CA: %w", err)
		}
		why = append(why, "there is no CA that can sign")
	}
	return why, nil
}

// shown is what a Source with the state has.
func (s *state) shown() shown {
	next := shown{ca: s.ca, secrets: s.secrets}
	if s.ca != nil {
		next.bundle = pemOf(s.ca.Leaf)
	}
	return next
}

func (s *state) encode() (map[string][]byte, error) {
	data := map[string][]byte{pathKey: []byte(s.secrets[0])}
	if s.secrets[1] != "" {
		data[previousPathKey] = []byte(s.secrets[1])
	}
	if s.ca == nil {
		return data, nil
	}
	key, err := pemOfKey(s.ca)
	data[caKey], data[caPrivateKey] = pemOf(s.ca.Leaf), key
	return data, err
}

// decode parses what encode wrote, or as much of it as is valid.
func decode(data map[string][]byte) state {
	s := state{secrets: [2]string{string(data[pathKey]), string(data[previousPathKey])}}
	if ca, err := tls.X509KeyPair(data[caKey], data[caPrivateKey]); err == nil && ca.Leaf.IsCA {
		s.ca = &ca
	}
	return s
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func pemOfKey(c *tls.Certificate) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("cannot write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

const (
	lifetime          = 90 * 24 * time.Hour
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// backdate makes certificates valid before their creation, for clients whose clocks are behind.
	backdate = 5 * time.Minute
)

// fresh reports whether a certificate is in the first half of its life.
func fresh(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter.Add(-lifetime/2))
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
