package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// pki holds what the components need to trust each other, as PEM.
type pki struct {
	ca, serverCert, serverKey, serviceAccountKey []byte
}

// newPKI makes a certificate authority, one certificate for every component's server, and the key that signs the
// tokens of ServiceAccounts. The authority's own key is forgotten: nothing else is ever signed.
func newPKI() (pki, error) {
	caKey, _, err := newKey()
	if err != nil {
		return pki{}, err
	}
	serverKey, serverKeyPEM, err := newKey()
	if err != nil {
		return pki{}, err
	}
	_, serviceAccountPEM, err := newKey()
	if err != nil {
		return pki{}, err
	}

	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testcluster"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return pki{}, err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "testcluster-server"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return pki{}, err
	}
	return pki{
		ca:                certificatePEM(caDER),
		serverCert:        certificatePEM(serverDER),
		serverKey:         serverKeyPEM,
		serviceAccountKey: serviceAccountPEM,
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
