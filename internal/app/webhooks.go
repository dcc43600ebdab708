package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/cluster"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/resource"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// WebhookOptions are about the hooks that the API server asks.
type WebhookOptions struct {
	Admission, Conversion WebhookServer
	// ConfigurationName begins the names of the webhook configurations.
	ConfigurationName string
	// FailurePolicy is that of validating bindings without one.
	FailurePolicy string
	// Namespace is where the Services are. Empty means that of the Pod.
	Namespace string
	// URL is the base address by which the API server reaches servers without one of their own and without a Service.
	URL string
	// CreateServices lets the operator make the Services. They select the Pods with the labels of ServiceSelector, or
	// with those of PodName, which is our own.
	CreateServices  bool
	ServiceSelector map[string]string
	PodName         string
	// CertManager is the Certificate of cert-manager, as "namespace/name", whose CA is to be trusted. Then all
	// certificates come from files.
	CertManager string
	// SecretName is where certificates are kept that the operator makes itself.
	SecretName string
	// Parallel reviews run at a time, and Queue more wait; 0 means the default.
	Parallel, Queue int
}

// WebhookServer is one of the servers.
type WebhookServer struct {
	// ListenAddress is "host:port".
	ListenAddress string
	ServiceName   string
	// Cert, Key and CA are PEM files. Where Cert does not exist, and FilesGiven is not set, the operator makes its own.
	Cert, Key, CA string
	FilesGiven    bool
	ClientCA      []string
	// URL is the base address by which the API server reaches this server; empty means that of both.
	URL string
}

// hasFiles tells whether certificates come from files.
func (s *WebhookServer) hasFiles() bool {
	_, err := os.Stat(s.Cert)
	return s.FilesGiven || !errors.Is(err, fs.ErrNotExist)
}

// asked tells which kinds of webhooks the hooks have.
func asked(hooks []*hook.Hook) (admits, converts bool) {
	for _, h := range hooks {
		admits = admits || len(h.Validating)+len(h.Mutating) > 0
		converts = converts || len(h.Conversions) > 0
	}
	return admits, converts
}

// webhooks is everything that serves the API server's questions.
type webhooks struct {
	*servers
	op     *operator
	cl     *cluster.Cluster
	o      Options
	client rest.Interface
	// admission and conversion are nil until a hook needs them. Then they stay.
	admission, conversion *served
	// shared are the certificates that the operator makes itself for all servers behind Services; nil until needed.
	shared cert.Source
	// own tells that what is registered leads to this replica only.
	own bool
}

// newWebhooks listens, for the kinds that hooks have. Nothing is registered before run.
func newWebhooks(ctx context.Context, op *operator, cl *cluster.Cluster, o Options) (*webhooks, error) {
	client, err := resource.NewClient(cl.Config)
	if err != nil {
		return nil, err
	}
	w := &webhooks{op: op, cl: cl, o: o, client: client}
	first, err := w.prepare(ctx, op.all())
	if err != nil {
		first.abort()
		return nil, err
	}
	// Until they are ready, too, hooks answer who knows where they are.
	for _, swap := range first.swap {
		swap()
	}
	w.servers = newServers(first, admission.ErrReplaced)
	return w, nil
}

// prepare listens for the kinds that hooks have and that were not needed before, and makes handlers for all. The renewal
// is there with an error, too.
func (w *webhooks) prepare(ctx context.Context, hooks []*hook.Hook) (r *renewal, err error) {
	r = &renewal{what: "webhooks"}
	admits, converts := asked(hooks)
	if !admits && w.admission == nil && w.cl.Inside {
		r.registrars = append(r.registrars, func(ctx context.Context) error { return removeLeftovers(ctx, w.client, w.cl, w.o) })
	}
	if admits && converts {
		if err := w.o.Webhooks.checkURLs(); err != nil {
			return r, err
		}
	}
	if admits || w.admission != nil {
		if err := w.prepareAdmission(ctx, r, hooks); err != nil {
			return r, err
		}
	}
	if converts || w.conversion != nil {
		if err := w.prepareConversion(ctx, r, hooks); err != nil {
			return r, err
		}
	}
	if w.own {
		// What leads to one replica only is registered by the one that runs hooks, or replicas would overwrite each
		// other for ever.
		r.ready = append(r.ready, w.op.leading)
	}
	return r, checkServices(r.services)
}

func (w *webhooks) prepareAdmission(ctx context.Context, r *renewal, hooks []*hook.Hook) error {
	o := w.o
	handler, err := admission.New(admission.Options{
		Hooks: hooks, Runner: answerer{w.op}, Log: o.Log, Parallel: o.Webhooks.Parallel, Queue: o.Webhooks.Queue,
		DefaultFailurePolicy: o.Webhooks.FailurePolicy,
	})
	if err != nil {
		return err
	}
	s := w.admission
	if s == nil {
		if s, err = w.serve(ctx, r, o.Webhooks.Admission, "admissionWebhook"); err != nil {
			return err
		}
		w.admission = s
		r.closed = append(r.closed, func() { w.admission = nil })
	}
	registrar, err := admission.NewRegistrar(admission.RegistrarOptions{
		Client: w.client, Hooks: hooks, ConfigurationName: o.Webhooks.ConfigurationName,
		Service: admission.Service{Name: s.service, Namespace: s.namespace}, URL: s.url,
		Bundle: s.certificates.Bundle, BundleChanged: s.certificates.Changed, CertManager: o.Webhooks.CertManager,
		DefaultFailurePolicy: o.Webhooks.FailurePolicy, Log: o.Log,
	})
	if err != nil {
		return err
	}
	r.swap, r.wait = append(r.swap, func() { s.handler.put(handler) }), append(r.wait, handler.Wait)
	r.registrars = append(r.registrars, registrar.Run)
	return nil
}

func (w *webhooks) prepareConversion(ctx context.Context, r *renewal, hooks []*hook.Hook) (err error) {
	o := w.o
	handler := conversion.NewHandler(conversion.Options{
		Hooks: hooks, Runner: answerer{w.op}, Log: o.Log, Parallel: o.Webhooks.Parallel, Queue: o.Webhooks.Queue,
	})
	s := w.conversion
	if s == nil {
		if s, err = w.serve(ctx, r, o.Webhooks.Conversion, "conversionWebhook"); err != nil {
			return err
		}
		w.conversion = s
		r.closed = append(r.closed, func() { w.conversion = nil })
	}
	registrar, err := conversion.NewRegistrar(conversion.RegistrarOptions{
		Client: w.client, Hooks: hooks, Service: conversion.Service{Name: s.service, Namespace: s.namespace}, URL: s.url,
		Bundle: s.certificates.Bundle, BundleChanged: s.certificates.Changed, CertManager: o.Webhooks.CertManager, Log: o.Log,
	})
	if err != nil {
		return err
	}
	r.swap = append(r.swap, func() { s.handler.put(handler) })
	r.registrars = append(r.registrars, registrar.Run)
	return nil
}

// removeLeftovers removes what an earlier version of the hooks has registered: nobody would answer there.
func removeLeftovers(ctx context.Context, client rest.Interface, cl *cluster.Cluster, o Options) error {
	at, err := placeOf(cl, o.Webhooks, o.Webhooks.Admission)
	if err != nil || at.namespace == "" {
		return nil // without a namespace nothing can have been registered
	}
	r, err := admission.NewRegistrar(admission.RegistrarOptions{
		Client: client, ConfigurationName: o.Webhooks.ConfigurationName, Log: o.Log,
		Service: admission.Service{Name: o.Webhooks.Admission.ServiceName, Namespace: at.namespace},
	})
	if err != nil {
		return err
	}
	if err := r.Remove(ctx); err != nil {
		o.Log.Warn("Cannot remove webhook configurations that no hook needs any more", "error", err.Error())
	}
	return nil
}

// served is a server as the API server has to know it: by its Service, or by a URL.
type served struct {
	handler                 replaceable
	certificates            cert.Source
	service, namespace, url string
}

func (w *webhooks) serve(ctx context.Context, r *renewal, server WebhookServer, component string) (*served, error) {
	o := w.o
	at, err := placeOf(w.cl, o.Webhooks, server)
	if err != nil {
		return nil, err
	}
	var clients *x509.CertPool
	if len(server.ClientCA) > 0 {
		var err error
		if clients, err = cert.ClientCAs(server.ClientCA); err != nil {
			return nil, err
		}
	}
	s := &served{}
	// The certificate is asked for by the first handshake, which cannot come before anybody knows the address.
	listening, err := webhook.New(webhook.Options{
		Address: server.ListenAddress, Handler: &s.handler, ClientCAs: clients, Component: component, Log: o.Log,
		Certificate: certificateOf(s),
	})
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, listening)
	if at.namespace != "" {
		s.service, s.namespace = server.ServiceName, at.namespace
	} else {
		s.url, w.own = at.base(listening.Address()), true
	}
	if o.Webhooks.CreateServices && s.service != "" {
		r.services = append(r.services, serviceOf(w.client, o, s, listening.Address()))
	}
	if s.certificates, err = w.certificatesFor(ctx, r, server, at, s); err != nil {
		return nil, err
	}
	r.parts = append(r.parts, listening.Run)
	o.Log.Info("webhook server started", "address", listening.Address(), "url", s.url, "service", s.service)
	return s, nil
}

// certificatesFor uses the files that were given, and otherwise makes certificates: in a Secret for all replicas behind
// a Service, in memory for a URL, which leads to this process only.
func (w *webhooks) certificatesFor(ctx context.Context, r *renewal, server WebhookServer, at place, s *served) (source cert.Source, err error) {
	o := w.o
	if o.Webhooks.CertManager != "" {
		// Its Secret need not have a CA, which is no concern of ours.
		source, err = cert.Files(cert.FilesOptions{Cert: server.Cert, Key: server.Key, Log: o.Log})
		if err != nil {
			err = fmt.Errorf("with --webhook-cert-manager the certificates are those of cert-manager: %w", err)
		}
		return r.keep(source, err)
	}
	if server.hasFiles() {
		source, err = cert.Files(cert.FilesOptions{Cert: server.Cert, Key: server.Key, CA: server.CA, Log: o.Log})
		return r.keep(source, err)
	}
	if s.url != "" {
		u, err := url.Parse(s.url)
		if err != nil {
			return nil, fmt.Errorf("the URL %q of a webhook server: %w", s.url, err)
		}
		return r.keep(cert.InMemory(u.Hostname()))
	}
	if w.shared == nil {
		var names []string
		for _, service := range []string{o.Webhooks.Admission.ServiceName, o.Webhooks.Conversion.ServiceName} {
			names = append(names, service+"."+at.namespace+".svc", service+"."+at.namespace+".svc.cluster.local")
		}
		w.shared, err = r.keep(cert.Managed(ctx, cert.ManagedOptions{
			Client: w.client, Namespace: at.namespace, SecretName: o.Webhooks.SecretName, Names: names, Log: o.Log,
		}))
		r.closed = append(r.closed, func() { w.shared = nil })
	}
	return w.shared, err
}

// keep lets the source run beside the servers.
func (r *renewal) keep(source cert.Source, err error) (cert.Source, error) {
	if err == nil {
		r.parts = append(r.parts, source.Run)
	}
	return source, err
}

// place is where the API server finds a server.
type place struct {
	// One of these: the namespace of its Service, a URL that was given, or our own address outside of the cluster.
	namespace, url, host string
}

// checkURLs refuses one URL for both servers if they have certificates that the operator makes: each makes its own, so
// that nothing can stand for both at one address.
func (o *WebhookOptions) checkURLs() error {
	url := strings.TrimSuffix(cmp.Or(o.Admission.URL, o.URL), "/")
	if url == "" || url != strings.TrimSuffix(cmp.Or(o.Conversion.URL, o.URL), "/") || o.CertManager != "" || o.Admission.hasFiles() && o.Conversion.hasFiles() {
		return nil
	}
	return fmt.Errorf("admission and conversion webhooks are served on two ports, but both have the URL %q: give each its own by --validating-webhook-url and --conversion-webhook-url, "+
		"or give certificate files and let something at this URL send paths below /hooks/ to the first and all others to the second", url)
}

// placeOf is inside the cluster when the operator is, unless a URL was given.
func placeOf(cl *cluster.Cluster, o WebhookOptions, server WebhookServer) (place, error) {
	if given := cmp.Or(server.URL, o.URL); given != "" {
		return place{url: strings.TrimSuffix(given, "/")}, nil
	}
	if cl.Inside {
		namespace, err := cl.OwnNamespace(o.Namespace)
		if err != nil {
			return place{}, fmt.Errorf("webhooks need the namespace of their Service: %w", err)
		}
		return place{namespace: namespace}, nil
	}
	host, err := ownAddress(cl.Config.Host)
	return place{host: host}, err
}

// ownAddress is the address that this machine has on the way to the API server. Nothing is sent.
func ownAddress(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("cannot find out how the API server reaches this machine: %w: give --webhook-url", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("cannot find out how the API server reaches this machine: %w: give --webhook-url", err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// base is the base address of a server that listens on an address.
func (p place) base(listening string) string {
	if p.url != "" {
		return p.url
	}
	_, port, _ := net.SplitHostPort(listening)
	return "https://" + net.JoinHostPort(p.host, port)
}

// certificateOf asks for the certificate only when a handshake needs it.
func certificateOf(s *served) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificates.Certificate(hello) }
}

// answerer runs hooks for the API server.
type answerer struct{ *operator }

var (
	_ admission.Runner  = answerer{}
	_ conversion.Runner = answerer{}
)

func (a answerer) Admit(ctx context.Context, h *hook.Hook, typ event.Type, index int, review []byte) (*effect.AdmissionAnswer, error) {
	out, err := a.runner.Answer(ctx, run.Review{Event: event.Event{Type: typ, Hook: h, Index: index}, Body: review})
	if err != nil || out.Admission == nil {
		return nil, err
	}
	answer, err := wire.ParseAdmission(out.Admission)
	return &answer, err
}

func (a answerer) Convert(ctx context.Context, h *hook.Hook, index int, step hook.ConversionStep, review []byte) (*effect.ConversionAnswer, error) {
	out, err := a.runner.Answer(ctx, run.Review{
		Event: event.Event{Type: event.Conversion, Hook: h, Index: index}, Body: review, Step: step,
	})
	if err != nil || out.Conversion == nil {
		return nil, err
	}
	answer, err := wire.ParseConversion(out.Conversion)
	return &answer, err
}

// UninstallWebhooks removes the webhook configurations that an operator behind a Service has registered, and the
// Services that it has made.
func UninstallWebhooks(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cl, err := cluster.Connect(o.Cluster, dir)
	if err != nil {
		return err
	}
	cl.Inside, cl.Namespace = true, "" // it is the Service that matters, not where we are
	at, err := placeOf(cl, o.Webhooks, o.Webhooks.Admission)
	if err != nil {
		return err
	}
	client, err := resource.NewClient(cl.Config)
	if err != nil {
		return err
	}
	registered := admission.RegistrarOptions{Client: client, ConfigurationName: o.Webhooks.ConfigurationName, Log: o.Log}
	if at.url != "" {
		registered.URL = at.url
	} else {
		registered.Service = admission.Service{Name: o.Webhooks.Admission.ServiceName, Namespace: at.namespace}
	}
	r, err := admission.NewRegistrar(registered)
	if err != nil {
		return err
	}
	return errors.Join(r.Remove(ctx), removeServices(ctx, client, cl, o))
}
