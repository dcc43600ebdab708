package httpserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A token is the last segment of a path: 64 hexadecimal digits that only a known caller can send. It is a secret.
var (
	lastToken = regexp.MustCompile(`/[0-9a-f]{64}$`)
	// anyToken finds tokens in texts, also when they are cut off.
	anyToken = regexp.MustCompile(`/[0-9a-f]{32,64}\b`)
)

// HideTokens removes tokens from a text.
func HideTokens(text string) string { return anyToken.ReplaceAllString(text, "/…") }

// objectToken finds whole tokens in objects.
var objectToken = regexp.MustCompile(`/[0-9a-f]{64}\b`)

// HideTokensOfObject removes tokens from the JSON text of a webhook configuration or CRD, or of what a filter has made of one. Other texts
// stay.
func HideTokensOfObject(text []byte) []byte {
	if !bytes.Contains(text, []byte("clientConfig")) && !bytes.Contains(text, []byte("/hooks/")) {
		return text
	}
	return objectToken.ReplaceAll(text, []byte("/…"))
}

// WithoutTokens removes tokens from the text of an error.
func WithoutTokens(err error) error {
	if err == nil {
		return nil
	}
	return &hiddenError{err}
}

type hiddenError struct{ err error }

func (e *hiddenError) Error() string { return HideTokens(e.err.Error()) }
func (e *hiddenError) Unwrap() error { return e.err }

type knownKey struct{}

// WithKnown marks the requests of a known caller.
func WithKnown(ctx context.Context) context.Context {
	return context.WithValue(ctx, knownKey{}, true)
}

// Known reports whether a request is that of a known caller: one that has sent the token of its path, or has a client
// certificate of a configured CA.
func Known(ctx context.Context) bool { return ctx.Value(knownKey{}) != nil }

// identify marks known callers, and removes tokens from the paths: neither the log nor a handler gets them. It reports requests of known
// callers.
func (o *Options) identify(next http.Handler, report func(context.Context)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := o.ClientCAs != nil && len(r.TLS.PeerCertificates) > 0 && named(r.TLS.PeerCertificates[0], o.ClientNames)
		if o.Knows != nil {
			token := lastToken.FindString(r.URL.Path)
			if token != "" {
				r.URL.Path, r.URL.RawPath = r.URL.Path[:len(r.URL.Path)-len(token)], ""
				r.RequestURI = r.URL.RequestURI()
			}
			// A client CA is the stronger proof and replaces tokens, which the API server quotes in some errors.
			known = known || o.ClientCAs == nil && o.Knows(r.URL.Path, strings.TrimPrefix(token, "/"))
		}
		if known {
			report(r.Context())
			r = r.WithContext(WithKnown(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}

// named reports whether a certificate has one of the names, as its common name or as a DNS name. Without names every
// certificate is accepted.
func named(c *x509.Certificate, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return c.Subject.CommonName == name || slices.Contains(c.DNSNames, name)
	})
}

// requireKnown rejects clients without an accepted certificate.
func requireKnown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case Known(r.Context()) || r.URL.Path == "/healthz":
			next.ServeHTTP(w, r)
		case len(r.TLS.PeerCertificates) == 0:
			http.Error(w, "a client certificate is required", http.StatusUnauthorized)
		default:
			http.Error(w, "the client certificate has none of the allowed names", http.StatusForbidden)
		}
	})
}
