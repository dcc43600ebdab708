package httpserver

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
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

// lastSecond limits the time of the rest of a rejected body: a client that has sent it gets its response.
const lastSecond = time.Second

// admit passes on requests of known clients: those that know a registered path, or have a certificate of a configured CA. Neither the log
// nor a handler gets a token. Others are not found, before their body is read. Probes need not be known, and are answered here.
func (o *Options) admit(next http.Handler) http.Handler {
	if o.Knows == nil && o.ClientCAs == nil {
		return next
	}
	strangers := logonce.Dedup{Every: time.Minute}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := lastToken.FindString(r.URL.Path)
		if token != "" {
			r.URL.Path, r.URL.RawPath = r.URL.Path[:len(r.URL.Path)-len(token)], ""
			r.RequestURI = r.URL.RequestURI()
		}
		switch {
		case r.URL.Path == "/healthz" && token == "" && r.ContentLength == 0:
		case o.known(r, strings.TrimPrefix(token, "/")):
			MarkKnown(r.Context())
			next.ServeHTTP(w, r)
		default:
			if suppressed, due := strangers.Due("", ""); due {
				o.Log.Warn("A request is not answered, its client does not know what is registered", "operator.component", o.Component,
					"path", Text(r.URL.Path), "client", r.RemoteAddr, "again", suppressed,
					"hint", "the API server knows the path that the operator registers, or a client certificate; for a registration of your own "+
						"set --webhook-path-secret-file")
			}
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastSecond))
			http.NotFound(w, r)
		}
	})
}

// known reports whether the client of a request is known. A client CA is the stronger proof and replaces tokens,
// which the API server quotes in some errors.
func (o *Options) known(r *http.Request, token string) bool {
	if o.ClientCAs == nil {
		return o.Knows(r.URL.Path, token)
	}
	if len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	c := r.TLS.PeerCertificates[0]
	return len(o.ClientNames) == 0 || slices.ContainsFunc(o.ClientNames, func(name string) bool {
		return c.Subject.CommonName == name || slices.Contains(c.DNSNames, name)
	})
}
