package webhook

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/kube"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// servedHTTP is the server of HTTP hooks.
type servedHTTP struct {
	// access is nil where clients are not authenticated.
	access *httphooks.Access
}

// prepareHTTP listens if a hook needs it for the first time, and creates a handler.
func (w *Servers) prepareHTTP(r *Renewal, hooks []*hook.Hook) (err error) {
	served := w.http
	if served == nil {
		if len(namesOf(hooks, hook.OnHTTP)) == 0 {
			return nil
		}
		if served, err = w.listenHTTP(r); err != nil {
			return err
		}
		w.http = served
	}
	if served.access == nil {
		warnAboutAllow(hooks, w.o)
	}
	handler := httphooks.New(httphooks.Options{
		Hooks: hooks, Runner: w.o.Requests, Ready: w.o.Ready, Access: served.access, Log: w.o.Log,
		Limits: w.o.httpIntake.Limits(w.o.HTTP.Parallel, 2*w.o.HTTP.Parallel), BodyLimit: int64(w.o.HTTP.BodyLimit),
	})
	r.handlers = append(r.handlers, placed{&w.serves, &version{answerer: handler, hooks: hooks}})
	return nil
}

func (w *Servers) listenHTTP(r *Renewal) (*servedHTTP, error) {
	o := w.o
	var certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if o.HTTP.Cert != "" {
		files, err := cert.Files(cert.FilesOptions{Cert: o.HTTP.Cert, Key: o.HTTP.Key, For: "HTTP", Log: o.Log})
		if err != nil {
			return nil, err
		}
		certificate, r.parts = files.Certificate, append(r.parts, part{httpHooks, files.Run})
	}
	// The name is resolved once, so that the checked address is the one that is bound.
	address, err := net.ResolveTCPAddr("tcp", o.HTTP.ListenAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot serve HTTP hooks on %s: %w: set another --http-listen-address", o.HTTP.ListenAddress, err)
	}
	served := &servedHTTP{}
	if served.access, err = accessAt(address, certificate != nil, o); err != nil {
		return nil, err
	}
	listening, err := httpserver.New(httpserver.Options{Address: address.String(), Ports: o.Ports, Handler: &w.serves,
		Certificate: certificate, Log: o.Log, MaxHeaderBytes: httpserver.MaxHeaderBytes})
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, listening)
	r.parts = append(r.parts, part{httpHooks, listening.Run})
	o.Log.Info("HTTP hooks are served", "address", listening.Address(), "tls", certificate != nil, "authentication", served.access != nil)
	return served, nil
}

// accessAt is nil on loopback, unless clients are to be authenticated there, too. Other addresses need TLS, or tokens would
// be sent in the clear.
func accessAt(address *net.TCPAddr, secure bool, o Options) (*httphooks.Access, error) {
	local := address.IP.IsLoopback()
	if local && !o.HTTP.Authentication {
		return nil, nil
	}
	if !local && !secure {
		return nil, fmt.Errorf("HTTP hooks cannot be served on %s without TLS: set --http-server-cert and --http-server-key, "+
			"or --http-listen-address 127.0.0.1", address)
	}
	client, err := kube.NewClient(o.Cluster.Config)
	if err != nil {
		return nil, err
	}
	return httphooks.NewAccess(client, o.Log), nil
}

// warnAboutAllow logs bindings whose allow has no effect on loopback.
func warnAboutAllow(hooks []*hook.Hook, o Options) {
	for _, h := range hooks {
		for _, b := range h.HTTP {
			if b.Allow != nil {
				o.Log.Warn("allow has no effect: on a loopback address every client on this machine is trusted, unless --http-authentication is set",
					"hook", h.Name, "binding", b.Name)
			}
		}
	}
}
