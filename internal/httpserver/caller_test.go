package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Only who knows a registered path is served or, with a client CA, who has a certificate with an allowed name; and probes. The others are
// not found, before their body is read. Neither the handler nor the log gets a token.
func TestKnownClients(t *testing.T) {
	certificate, foreign := test.NewCertificate(t), test.NewCertificate(t)
	token, other := strings.Repeat("0a", 32), strings.Repeat("1b", 32)
	leaf, err := x509.ParseCertificate(certificate.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	name := append(leaf.DNSNames, leaf.Subject.CommonName)[0]
	own, others := []tls.Certificate{certificate.Certificate}, []tls.Certificate{foreign.Certificate}
	const missing = "404 404 page not found"
	for _, row := range []struct {
		name      string
		clientCAs *x509.CertPool
		names     []string
		client    []tls.Certificate
		path      string
		want      string // empty: the handshake fails
	}{
		{"with the token", nil, nil, nil, "/hooks/x/" + token + "?timeout=10s", "200 /hooks/x?timeout=10s"},
		{"without a token", nil, nil, nil, "/hooks/x?timeout=10s", missing},
		{"with the token of another path", nil, nil, nil, "/hooks/y/" + token, missing},
		{"with an invalid token", nil, nil, nil, "/hooks/x/" + other, missing},
		{"with half a token", nil, nil, nil, "/hooks/x/" + token[:32], missing},
		{"a probe", nil, nil, nil, "/healthz", "200 "},
		{"a probe of another page", nil, nil, nil, "/healthz/" + token, missing},
		{"with a certificate", certificate.Pool, nil, own, "/hooks/x/" + other, "200 /hooks/x"},
		{"with an allowed name", certificate.Pool, []string{"a", name}, own, "/hooks/x", "200 /hooks/x"},
		{"with another name", certificate.Pool, []string{"a"}, own, "/hooks/x/" + token, missing},
		{"with the token instead of a certificate", certificate.Pool, nil, nil, "/hooks/x/" + token, missing},
		{"a probe without a certificate", certificate.Pool, nil, nil, "/healthz", "200 "},
		{"with a certificate of another CA", certificate.Pool, nil, others, "/hooks/x", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			log := &test.Text{}
			s, err := New(Options{
				Address: "127.0.0.1:0", ClientCAs: row.clientCAs, ClientNames: row.names, Component: "test",
				Log:         slog.New(slog.NewTextHandler(log, nil)),
				Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.RequestURI) }),
				Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate.Certificate, nil },
				Knows:       func(path, got string) bool { return path == "/hooks/x" && got == token },
			})
			if err != nil {
				t.Fatal(err)
			}
			s.drain = nil
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			got, closed := post(t, s.Address(), row.path, row.want == missing, row.client, certificate.Pool)
			if got != row.want || closed != (got == missing) {
				t.Errorf("got %q, want %q; the connection is to be closed: %t", got, row.want, closed)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if strings.Contains(log.String(), token) || strings.Contains(log.String(), other) ||
				strings.Contains(log.String(), "is not answered") != (got == missing) {
				t.Errorf("the log has a token, or not what happened:\n%s", log)
			}
		})
	}
}

// post sends a request, or only announces its body, and returns the status and the text of the response, and whether the server closes the
// connection. Without a response, because of a handshake, the text is empty.
func post(t *testing.T, address, path string, announce bool, client []tls.Certificate, roots *x509.CertPool) (
	response string, closed bool,
) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", GetClientCertificate: offer(client)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(test.Patience))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path,
		map[bool]int{true: 1000}[announce])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, res.ContentLength))
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprint(res.StatusCode, " ", strings.TrimSpace(string(text))), res.Close
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

// Only what can be a review reaches a handler.
func TestOnlyReviews(t *testing.T) {
	handler := onlyReviews(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for request, want := range map[string]int{
		"POST application/json": 200, "POST application/json; charset=utf-8": 200, "POST application/yaml": 415, "POST ": 415,
		"GET application/json": 405,
	} {
		method, media, _ := strings.Cut(request, " ")
		r, w := httptest.NewRequest(method, "/", nil), httptest.NewRecorder()
		r.Header.Set("Content-Type", media)
		if handler.ServeHTTP(w, r); w.Code != want || (w.Header().Get("Allow") == "POST") != (want == 405) {
			t.Errorf("%s: %d %v", request, w.Code, w.Header())
		}
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
