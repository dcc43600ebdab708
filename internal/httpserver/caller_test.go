package httpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// The caller of a path with its token is known, unless there is a client CA: then the certificate decides. Neither the
// handler nor the log gets the token.
func TestKnownCallers(t *testing.T) {
	certificate := test.NewCertificate(t)
	token, other := strings.Repeat("0a", 32), strings.Repeat("1b", 32)
	leaf, err := x509.ParseCertificate(certificate.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	name := leaf.Subject.CommonName
	if name == "" {
		name = leaf.DNSNames[0]
	}
	for _, row := range []struct {
		name      string
		clientCAs *x509.CertPool
		names     []string
		client    []tls.Certificate
		path      string
		want      string
	}{
		{"with the token", nil, nil, nil, "/hooks/x/" + token + "?timeout=10s", "200 /hooks/x?timeout=10s true"},
		{"without a token", nil, nil, nil, "/hooks/x?timeout=10s", "200 /hooks/x?timeout=10s false"},
		{"with the token of another path", nil, nil, nil, "/hooks/y/" + token, "200 /hooks/y false"},
		{"with an invalid token", nil, nil, nil, "/hooks/x/" + other, "200 /hooks/x false"},
		{"with half a token", nil, nil, nil, "/hooks/x/" + token[:32], "200 /hooks/x/" + token[:32] + " false"},
		{"with a certificate", certificate.Pool, nil, []tls.Certificate{certificate.Certificate}, "/hooks/x/" + other, "200 /hooks/x true"},
		{"with an allowed name", certificate.Pool, []string{"a", name}, []tls.Certificate{certificate.Certificate}, "/hooks/x",
			"200 /hooks/x true"},
		{"with another name", certificate.Pool, []string{"a"}, []tls.Certificate{certificate.Certificate}, "/hooks/x/" + token,
			"403 the client certificate has none of the allowed names"},
		{"with the token instead of a certificate", certificate.Pool, nil, nil, "/hooks/x/" + token, "401 a client certificate is required"},
	} {
		t.Run(row.name, func(t *testing.T) {
			log := &test.Text{}
			s, err := New(Options{
				Address: "127.0.0.1:0", ClientCAs: row.clientCAs, ClientNames: row.names, Component: "test",
				Log: slog.New(slog.NewTextHandler(log, nil)),
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = fmt.Fprint(w, r.RequestURI, " ", Known(r.Context()))
				}),
				Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.Certificate, nil },
				Knows:       func(path, got string) bool { return path == "/hooks/x" && got == token },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: certificate.Pool, GetClientCertificate: offer(row.client)},
			}}
			res, err := client.Post("https://"+s.Address()+row.path, "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if got := fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(text))); got != row.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, row.want)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if strings.Contains(log.String(), token) || strings.Contains(log.String(), other) || !strings.Contains(log.String(), "uri=") {
				t.Errorf("the log has a token, or no request:\n%s", log)
			}
		})
	}
}

func TestHideTokens(t *testing.T) {
	token := strings.Repeat("0a", 32)
	text := `webhooks[0].clientConfig.service.path: Invalid value: "/hooks/validating/a.sh/a.b.c/` + token + `": segment, "/hooks/` +
		token[:40] + `...", https://h:1/crd.example.com/` + token
	want := `webhooks[0].clientConfig.service.path: Invalid value: "/hooks/validating/a.sh/a.b.c/…": segment, "/hooks/…...", ` +
		`https://h:1/crd.example.com/…`
	if got := HideTokens(text); got != want {
		t.Errorf("got %s", got)
	}
	err := errors.New("at /x/" + token)
	if hidden := WithoutTokens(fmt.Errorf("cannot: %w", err)); hidden.Error() != "cannot: at /x/…" || !errors.Is(hidden, err) ||
		WithoutTokens(nil) != nil {
		t.Errorf("got %v", hidden)
	}
}

func TestHideTokensOfObject(t *testing.T) {
	token := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		`{"clientConfig":{"service":{"path":"/things.example.com/` + token +
			`"}}}`: `{"clientConfig":{"service":{"path":"/things.example.com/…"}}}`,
		`"/hooks/validating/a/b.c.d/` + token + `"`: `"/hooks/validating/a/b.c.d/…"`,
		`{"image":"blobs/` + token + `"}`:           `{"image":"blobs/` + token + `"}`,
	} {
		if got := string(HideTokensOfObject([]byte(text))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
