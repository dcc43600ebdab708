// Package webhook serves HTTPS for the hooks that the API server asks, and HTTP or HTTPS for those that others ask.
//
// Callers may rely on this:
//   - The address is taken when New returns; Run serves until its context ends, and lets requests finish for a while.
//   - Each request leaves one record in the log, when it is answered, but for those of probes.
//   - With client CAs every request but GET /healthz needs a certificate that one of them has signed.
//
// What is answered is the business of packages admission, conversion and source/http; certificates are that of package cert.
package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/shell-operator/shell-operator/internal/hardening"
)

// Options of a Server. All but Certificate, ClientCAs, Grace and Component are required.
type Options struct {
	// Address is "host:port".
	Address string
	Handler http.Handler
	// Certificate is for TLS; nil is for a server without.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs must have signed the certificates of callers; nil lets everybody call.
	ClientCAs *x509.CertPool
	// Grace is how long requests may take to finish at the end; 0 means 10 s.
	Grace time.Duration
	// Component names the server in the records of requests; empty means that the handler makes its own.
	Component string
	Log       *slog.Logger
}

// Server serves one kind of webhooks.
type Server struct {
	listener net.Listener
	server   *http.Server
	secure   bool
	grace    time.Duration
}

// New takes the address.
func New(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for requests to hooks on %s: %w: choose another address", o.Address, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate}
	handler := o.Handler
	if o.ClientCAs != nil {
		// Probes have no certificate, so the handshake lets everybody in and the handler asks.
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, o.ClientCAs
		handler = onlyKnown(handler)
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Component != "" {
		handler = recorded(o.Log, o.Component, handler)
	}
	return &Server{listener: listener, secure: o.Certificate != nil, grace: o.Grace, server: &http.Server{
		Handler: hardening.Handler(handler), TLSConfig: config,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: hardening.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}, nil
}

// onlyKnown refuses callers without a certificate.
func onlyKnown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 && r.URL.Path != "/healthz" {
			http.Error(w, "a client certificate is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Close gives the address back, if Run is not called.
func (s *Server) Close() error { return s.listener.Close() }

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
		defer cancel()
		if s.server.Shutdown(grace) != nil {
			_ = s.server.Close()
		}
	}()
	serve := s.server.Serve
	if s.secure {
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	err := serve(s.listener)
	close(ended)
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
