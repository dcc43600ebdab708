package httpserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// selfSigned returns a certificate for 127.0.0.1 and for clients, and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// With client CAs, clients without a valid certificate are rejected; probes need none.
func TestClientCertificates(t *testing.T) {
	certificate, pool := selfSigned(t)
	stranger, _ := selfSigned(t)
	for _, test := range []struct {
		name      string
		clientCAs *x509.CertPool
		client    []tls.Certificate
		path      string
		status    int // 0: the handshake fails
	}{
		{"everybody may call", nil, nil, "/hooks/x", 200},
		{"known client", pool, []tls.Certificate{certificate}, "/hooks/x", 200},
		{"no certificate", pool, nil, "/hooks/x", 401},
		{"probe", pool, nil, "/healthz", 200},
		{"stranger", pool, []tls.Certificate{stranger}, "/hooks/x", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := New(Options{
				Address: "127.0.0.1:0", ClientCAs: test.clientCAs, Log: slog.New(slog.DiscardHandler),
				Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
				Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, GetClientCertificate: offer(test.client)},
			}}
			status := 0
			if res, err := client.Post("https://"+s.Address()+test.path, "application/json", nil); err == nil {
				res.Body.Close()
				status = res.StatusCode
			}
			if status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// offer sends a certificate even if the server does not name its CA.
func offer(certificates []tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(certificates) == 0 {
			return &tls.Certificate{}, nil
		}
		return &certificates[0], nil
	}
}
