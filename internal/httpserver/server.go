// Package httpserver holds what the operator's HTTP servers share: a server with TLS, limits and graceful shutdown, the
// operator's own pages, and limits for handlers that run hooks.
//
// Callers may rely on this:
//   - New binds the address; Run serves until its context ends, and then gives requests a grace period.
//   - A server with a Component passes on reviews only, logs each request after its response, and answers probes at /healthz itself.
//   - With Knows or client CAs only known clients are served, and probes; others get 404, before their body is read. Handlers and logs
//     never get the token of a path.
//   - The connections of clients that are not known are bounded, and the memory that each can take before its request is known.
//   - Intake bounds the memory of all request bodies, and Limits the requests of each hook: excess ones are refused immediately.
//   - Answer is the one way of a request to its hook and back: read, run, answered exactly once and in time.
//   - The operator's own pages are read-only and show nothing secret.
//
// Handlers of hooks are in the packages below source; certificates are in source/webhook/cert.
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Options of a Server. Address, Handler and Log are required.
type Options struct {
	// Address is "host:port".
	Address string
	Handler http.Handler
	// Certificate serves TLS; nil serves plain HTTP.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ClientCAs must have signed the clients' certificates; nil needs none.
	ClientCAs *x509.CertPool
	// ClientNames are the accepted names of their certificates; empty accepts every name.
	ClientNames []string
	// Knows reports whether the client of a path and its token, which may be empty, is known, unless there are ClientCAs. Without both every
	// client is served.
	Knows func(path, token string) bool
	// Grace limits the rest of the requests at shutdown; 0 means 10 s.
	Grace time.Duration
	// ReadTimeout bounds reading a request, 0 means 30 s. WriteTimeout bounds the response, 0 means no limit.
	ReadTimeout, WriteTimeout time.Duration
	// Component names a server of reviews in its request log; empty is for other servers.
	Component string
	// MaxHeaderBytes bounds the header of a request, beside the 4 KiB that net/http adds; 0 means 8 KiB.
	MaxHeaderBytes int
	// Connections of several servers are bounded together; nil means 250 of this one.
	Connections *Connections
	// Ports may have the address; empty binds it.
	Ports Ports
	// Hint ends the error of an address that cannot be bound; empty means "choose another address".
	Hint string
	Log  *slog.Logger
}

func (o *Options) setDefaults() {
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 8<<10)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 30*time.Second)
	o.Hint = cmp.Or(o.Hint, "choose another address")
}

// Server is one listener and its handler.
type Server struct {
	listener net.Listener
	server   *http.Server
	grace    time.Duration
	// drain waits while the server still serves when it ends, or is nil; ending is true then, and responses close their connections. used is
	// the time of the last request since.
	drain  func(ctx context.Context)
	ending *atomic.Bool
	used   atomic.Pointer[time.Time]
	open   *Connections
}

// A replica that ends closes the connections of API servers when none has sent a request for reviewDrain, at the latest after maxDrain: one
// that is closed while it is idle may be chosen for a review at the same moment, which fails then, because HTTP/1.1 does not repeat a POST.
const (
	reviewDrain = time.Second
	maxDrain    = 5 * time.Second
)

// New binds the address.
func New(o Options) (*Server, error) {
	o.setDefaults()
	listener, err := o.Ports.Listen(o.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w: %s", o.Address, err, o.Hint)
	}
	handler := o.Handler
	var config *tls.Config
	if o.Certificate != nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.Certificate}
	}
	if o.ClientCAs != nil {
		// Probes have no certificate, so the handshake admits every client, and admit checks.
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, o.ClientCAs
	}
	s := &Server{listener: listener, grace: o.Grace, ending: &atomic.Bool{}}
	if o.Component != "" {
		s.drain = s.untilQuiet
		handler = s.noteUse(logRequests(o.Log, o.Component, onlyReviews(handler)))
	}
	if o.Connections == nil {
		o.Connections = NewConnections(250, o.Log)
	}
	s.open = o.Connections
	s.server = &http.Server{
		Handler: s.leave(Harden(o.admit(handler))), TLSConfig: config,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: o.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	s.listener = o.Connections.Bound(s.server, listener)
	return s, nil
}

// leave closes the connection of each request while the server ends.
func (s *Server) leave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// noteUse notes the time of each request while the server ends. It is behind admit: strangers do not delay the end.
func (s *Server) noteUse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			now := time.Now()
			s.used.Store(&now)
		}
		next.ServeHTTP(w, r)
	})
}

// Close releases the address of a server whose Run is not called.
func (s *Server) Close() error { return s.listener.Close() }

// Address is the bound address.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends, and as long as clients need to leave.
func (s *Server) Run(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		defer end()
		if s.ending.Store(true); s.drain != nil && !s.open.empty() {
			s.drain(serving) // it ends when the listener fails
		}
	})
	defer stop()
	return Serve(serving, s.server, s.listener, s.grace)
}

// untilQuiet waits until clients have left, or send nothing.
func (s *Server) untilQuiet(ctx context.Context) {
	begun := time.Now()
	s.used.CompareAndSwap(nil, &begun)
	for end := begun.Add(reviewDrain); ; {
		select {
		case <-time.After(time.Until(end)):
		case <-ctx.Done():
			return
		}
		quiet, last := s.used.Load().Add(reviewDrain), begun.Add(maxDrain)
		if quiet.After(last) {
			quiet = last
		}
		if !quiet.After(end) || s.open.empty() {
			return
		}
		end = quiet
	}
}

// Serve serves until ctx ends, or the listener fails, and then gives requests a grace period.
func Serve(ctx context.Context, s *http.Server, listener net.Listener, grace time.Duration) error {
	end := func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if s.Shutdown(limited) != nil {
			_ = s.Close()
		}
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		end()
	})
	if err := s.Serve(listener); stop() {
		end()
		return err // it has not been stopped
	}
	<-stopped
	return nil
}
