package httpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/shell-operator/shell-operator/internal/test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With client CAs, clients without a valid certificate are rejected; probes need none.
func TestClientCertificates(t *testing.T) {
	certificate := test.NewCertificate(t)
	stranger := test.NewCertificate(t)
	for _, test := range []struct {
		name      string
		clientCAs *x509.CertPool
		client    []tls.Certificate
		path      string
		status    int // 0: the handshake fails
	}{
		{"everybody may call", nil, nil, "/hooks/x", 200},
		{"known client", certificate.Pool, []tls.Certificate{certificate.Certificate}, "/hooks/x", 200},
		{"no certificate", certificate.Pool, nil, "/hooks/x", 401},
		{"probe", certificate.Pool, nil, "/healthz", 200},
		{"stranger", certificate.Pool, []tls.Certificate{stranger.Certificate}, "/hooks/x", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := New(Options{
				Address: "127.0.0.1:0", ClientCAs: test.clientCAs, Log: slog.New(slog.DiscardHandler),
				Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
				Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.Certificate, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: certificate.Pool, GetClientCertificate: offer(test.client)},
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
