package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

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
	parts []func(context.Context) error
	wait  func()
}

// newHTTPServer listens, if a hook has http bindings. Requests are refused until filled is closed.
func newHTTPServer(op *operator, cl *cluster, o Options, filled <-chan struct{}) (*httpServer, error) {
	s := &httpServer{wait: func() {}}
	if !serves(op.hooks) {
		return s, nil
	}
	var certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if o.HTTP.Cert != "" {
		files, err := cert.Files(cert.FilesOptions{Cert: o.HTTP.Cert, Key: o.HTTP.Key, For: "HTTP", Log: o.Log})
		if err != nil {
			return nil, err
		}
		certificate, s.parts = files.Certificate, append(s.parts, files.Run)
	}
	// A name is looked up once: what is checked is what is listened on.
	address, err := net.ResolveTCPAddr("tcp", o.HTTP.ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot serve HTTP hooks on %s: %w: give another --http-listen-address", o.HTTP.ListenAddress, err)
	}
	access, err := accessAt(address, certificate != nil, cl, o)
	if err != nil {
		return nil, err
	}
	if access == nil {
		warnAboutAllow(op.hooks, o)
	}
	handler, err := httphooks.New(httphooks.Options{
		Hooks: op.hooks, Runner: httpRunner{op}, Ready: filled, Access: access, Log: o.Log,
		Parallel: o.HTTP.Parallel, Queue: o.HTTP.Queue, BodyLimit: int64(o.HTTP.BodyLimit), Timeout: o.HTTP.Timeout,
	})
	if err != nil {
		return nil, err
	}
	s.wait = handler.Wait
	listening, err := webhook.New(webhook.Options{Address: address.String(), Handler: handler, Certificate: certificate, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s.parts = append(s.parts, listening.Run)
	o.Log.Info("HTTP hooks are served", "address", listening.Address(), "tls", certificate != nil, "authentication", access != nil)
	return s, nil
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
func accessAt(address *net.TCPAddr, secure bool, cl *cluster, o Options) (*httphooks.Access, error) {
	local := address.IP.IsLoopback()
	if local && !o.HTTP.Authentication {
		return nil, nil
	}
	if !local && !secure {
		return nil, fmt.Errorf("HTTP hooks cannot be served on %s without TLS: give --http-server-cert and --http-server-key, or --http-listen-address 127.0.0.1", address)
	}
	client, err := resource.NewClient(cl.config)
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

// run serves until ctx ends and all requests have been answered.
func (s *httpServer) run(ctx context.Context, fail context.CancelCauseFunc) {
	var parts sync.WaitGroup
	for _, part := range s.parts {
		parts.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				fail(&servingError{"HTTP hooks", err})
			}
		})
	}
	parts.Wait()
	s.wait()
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
