package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is one for servers on 127.0.0.1 and for clients, which signs itself, or is signed by another one.
type Certificate struct {
	tls.Certificate
	// CertPEM and KeyPEM are what files with it have.
	CertPEM, KeyPEM []byte
	// Pool trusts it.
	Pool *x509.CertPool
}

// NewCertificate makes a Certificate that is valid for an hour.
func NewCertificate(t testing.TB) Certificate {
	t.Helper()
	return newCertificate(t, nil)
}

// WriteSigned writes the next certificate that c signs, with its key and c, as a Secret of TLS has them.
func (c Certificate) WriteSigned(t testing.TB, dir string) {
	t.Helper()
	signed := newCertificate(t, &c)
	for name, text := range map[string][]byte{"ca.crt": c.CertPEM, "tls.crt": signed.CertPEM, "tls.key": signed.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newCertificate makes a certificate that another one signs, itself if there is none.
func newCertificate(t testing.TB, authority *Certificate) Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: authority == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, any(key)
	if authority != nil {
		template.Subject.CommonName, template.KeyUsage = "signed", x509.KeyUsageDigitalSignature
		signer = authority.PrivateKey
		if parent, err = x509.ParseCertificate(authority.Certificate.Certificate[0]); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	c := Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, Pool: x509.NewCertPool(),
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
	c.Pool.AppendCertsFromPEM(c.CertPEM)
	return c
}
