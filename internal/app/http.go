package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/shell-operator/shell-operator/internal/cluster"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/resource"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// HTTPOptions are about the hooks that answer HTTP requests.
type HTTPOptions struct {
	// ListenAddress is "host:port". One that is not loopback needs Cert and Key, and callers are asked who they are.
	ListenAddress string
	// Cert and Key are PEM files, read again when they change; empty means HTTP without TLS.
	Cert, Key string
	// Authentication asks callers on loopback, too.
	Authentication bool
	// Parallel requests run at a time for each hook, and Queue more wait.
	Parallel, Queue int
	// BodyLimit is the size of the largest body, and Timeout is for bindings that have none.
	BodyLimit int
	Timeout   time.Duration
}

// httpServer serves the hooks that answer HTTP requests.
type httpServer struct {
	*servers
	op *operator
	cl *cluster.Cluster
	o  Options
	// served is nil until a hook needs it. Then it stays.
	served *servedHTTP
}

type servedHTTP struct {
	handler replaceable
	// access is nil where callers are not asked.
	access *httphooks.Access
}

// newHTTPServer listens, if a hook has http bindings. Requests are refused until the hooks can answer.
func newHTTPServer(op *operator, cl *cluster.Cluster, o Options) (*httpServer, error) {
	s := &httpServer{op: op, cl: cl, o: o}
	first, err := s.prepare(op.all(), op.health.Answering())
	if err != nil {
		first.abort()
		return nil, err
	}
	for _, swap := range first.swap {
		swap()
	}
	s.servers = newServers(first, nil)
	return s, nil
}

// prepare listens if that has not been needed before, and makes a handler, which refuses everything until ready is closed.
// The renewal is there with an error, too.
func (s *httpServer) prepare(hooks []*hook.Hook, ready <-chan struct{}) (r *renewal, err error) {
	r = &renewal{what: "HTTP hooks"}
	if !serves(hooks) && s.served == nil {
		return r, nil
	}
	served := s.served
	if served == nil {
		if served, err = s.listen(r); err != nil {
			return r, err
		}
		s.served = served
		r.closed = append(r.closed, func() { s.served = nil })
	}
	if served.access == nil {
		warnAboutAllow(hooks, s.o)
	}
	handler, err := httphooks.New(httphooks.Options{
		Hooks: hooks, Runner: httpRunner{s.op}, Ready: ready, Access: served.access, Log: s.o.Log,
		Parallel: s.o.HTTP.Parallel, Queue: s.o.HTTP.Queue, BodyLimit: int64(s.o.HTTP.BodyLimit), Timeout: s.o.HTTP.Timeout,
	})
	if err != nil {
		return r, err
	}
	r.swap, r.wait = append(r.swap, func() { served.handler.put(handler) }), append(r.wait, handler.Wait)
	return r, nil
}

func (s *httpServer) listen(r *renewal) (*servedHTTP, error) {
	o := s.o
	var certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if o.HTTP.Cert != "" {
		files, err := cert.Files(cert.FilesOptions{Cert: o.HTTP.Cert, Key: o.HTTP.Key, For: "HTTP", Log: o.Log})
		if err != nil {
			return nil, err
		}
		certificate, r.parts = files.Certificate, append(r.parts, files.Run)
	}
	// A name is looked up once: what is checked is what is listened on.
	address, err := net.ResolveTCPAddr("tcp", o.HTTP.ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot serve HTTP hooks on %s: %w: give another --http-listen-address", o.HTTP.ListenAddress, err)
	}
	served := &servedHTTP{}
	if served.access, err = accessAt(address, certificate != nil, s.cl, o); err != nil {
		return nil, err
	}
	listening, err := webhook.New(webhook.Options{Address: address.String(), Handler: &served.handler, Certificate: certificate, Log: o.Log})
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, listening)
	r.parts = append(r.parts, listening.Run)
	o.Log.Info("HTTP hooks are served", "address", listening.Address(), "tls", certificate != nil, "authentication", served.access != nil)
	return served, nil
}

func serves(hooks []*hook.Hook) bool {
	for _, h := range hooks {
		if len(h.HTTP) > 0 {
			return true
		}
	}
	return false
}

// accessAt is nil for an address that only this machine reaches, unless callers are to be asked there, too. Others need TLS, or tokens would be there for everybody
// on the way.
func accessAt(address *net.TCPAddr, secure bool, cl *cluster.Cluster, o Options) (*httphooks.Access, error) {
	local := address.IP.IsLoopback()
	if local && !o.HTTP.Authentication {
		return nil, nil
	}
	if !local && !secure {
		return nil, fmt.Errorf("HTTP hooks cannot be served on %s without TLS: give --http-server-cert and --http-server-key, or --http-listen-address 127.0.0.1", address)
	}
	client, err := resource.NewClient(cl.Config)
	if err != nil {
		return nil, err
	}
	return httphooks.NewAccess(client, o.Log), nil
}

// warnAboutAllow tells of bindings that mean to be careful where nobody is asked.
func warnAboutAllow(hooks []*hook.Hook, o Options) {
	for _, h := range hooks {
		for _, b := range h.HTTP {
			if b.Allow != nil {
				o.Log.Warn("allow has no effect: everybody on this machine may ask the hook on a loopback address, unless --http-authentication is given", "hook", h.Name, "binding", b.Name)
			}
		}
	}
}

// httpRunner runs hooks for HTTP requests.
type httpRunner struct{ *operator }

var _ httphooks.Runner = httpRunner{}

func (r httpRunner) Answer(ctx context.Context, h *hook.Hook, index int, request *event.Request) (effect.HTTPAnswer, error) {
	out, err := r.runner.Answer(ctx, run.Review{Event: event.Event{Type: event.HTTP, Hook: h, Index: index}, Request: request})
	switch {
	case errors.Is(err, run.ErrRate):
		return effect.HTTPAnswer{}, fmt.Errorf("%w: %w", httphooks.ErrBusy, err)
	case errors.As(err, new(*process.TimeoutError)):
		return effect.HTTPAnswer{}, fmt.Errorf("%w: %w", httphooks.ErrLate, err)
	case err != nil:
		return effect.HTTPAnswer{}, err
	}
	return wire.ParseHTTP(out.HTTP)
}
