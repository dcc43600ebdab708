package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/source/webhook/cert"
)

// served is a server and its address for the API server: a Service or a URL.
type served struct {
	handler *replaceable
	// paths has the secret of the paths; it may be the source of the certificates.
	certificates, paths *cert.Source
	service             types.NamespacedName
	url                 string
	// clientCA reports that clients are known by their certificates, and not by paths.
	clientCA bool
}

// serve returns the server of a kind, and listens when that is needed for the first time.
func (w *Servers) serve(ctx context.Context, r *Renewal, kind **served, handler *replaceable, server WebhookServer,
	component string) (*served, error) {
	if *kind != nil {
		return *kind, nil
	}
	o := w.o
	at, err := endpointOf(w.o.Cluster, o.Webhooks, server)
	if err != nil {
		return nil, err
	}
	var clients *x509.CertPool
	if len(server.ClientCA) > 0 {
		var err error
		if clients, err = cert.ClientCAs(server.ClientCA); err != nil {
			return nil, err
		}
		if len(o.Webhooks.ClientNames) == 0 {
			o.Log.Warn("Every certificate of the client CA is accepted: name the clients with --webhook-client-names, above all if the CA signs "+
				"certificates of other programs", "server", component)
		}
	}
	s := &served{clientCA: clients != nil, handler: handler}
	// The first handshake needs the certificate, and no client knows the address before it is registered.
	listening, err := httpserver.New(httpserver.Options{
		Address: server.ListenAddress, Ports: o.Ports, Handler: handler, ClientCAs: clients, ClientNames: o.Webhooks.ClientNames,
		Component: component, Log: o.Log, MaxHeaderBytes: 2 << 10, Connections: o.connections,
		Certificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificates.Certificate(hello) },
		Knows:       s.knows,
	})
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, listening)
	if at.namespace != "" {
		s.service = types.NamespacedName{Namespace: at.namespace, Name: server.ServiceName}
	} else {
		s.url = at.base(listening.Address())
	}
	if s.certificates, err = w.certificatesFor(ctx, r, server, at, s); err != nil {
		return nil, err
	}
	if s.paths, err = w.pathsFor(ctx, r, at, s); err != nil {
		return nil, err
	}
	r.parts = append(r.parts, part{webhooks, listening.Run})
	o.Log.Info("webhook server started", "address", listening.Address(), "url", s.url, "service", s.service.Name)
	*kind = s
	return s, nil
}

// certificatesFor uses configured files, and creates certificates otherwise: in a Secret for all replicas behind a Service,
// in memory for a URL, which belongs to this process.
func (w *Servers) certificatesFor(ctx context.Context, r *Renewal, server WebhookServer, at endpoint,
	s *served) (source *cert.Source, err error) {
	o := w.o
	if o.Webhooks.CertManager != "" {
		// Its Secret need not have a CA, which the operator does not use.
		source, err = cert.Files(cert.FilesOptions{Cert: server.Cert, Key: server.Key, For: "webhook", Log: o.Log})
		if err != nil {
			err = fmt.Errorf("with --webhook-cert-manager the certificates are those of cert-manager: %w", err)
		}
		return r.keep(source, err)
	}
	if server.hasFiles() {
		source, err = cert.Files(cert.FilesOptions{Cert: server.Cert, Key: server.Key, CA: server.CA, For: "webhook", Log: o.Log})
		return r.keep(source, err)
	}
	if s.url != "" {
		u, err := url.Parse(s.url)
		if err != nil {
			return nil, fmt.Errorf("the URL %q of a webhook server: %w", s.url, err)
		}
		return r.keep(cert.InMemory(u.Hostname()))
	}
	return w.inSecret(ctx, r, at.namespace)
}

// pathsFor returns the secret of the paths: from a file, in the Secret for all replicas in a cluster, or of this process, with its
// certificate if that is in memory.
func (w *Servers) pathsFor(ctx context.Context, r *Renewal, at endpoint, s *served) (source *cert.Source, err error) {
	namespace := at.namespace
	if namespace == "" && w.o.Cluster.Inside {
		namespace, _ = w.o.Cluster.OwnNamespace(w.o.Webhooks.Namespace)
	}
	switch {
	case w.pathFile != nil:
		return w.pathFile, nil
	case w.o.Webhooks.PathSecretFile != "":
		w.pathFile, err = r.keep(cert.PathsOfFile(w.o.Webhooks.PathSecretFile, w.o.Log))
		return w.pathFile, err
	case namespace != "" && w.o.Webhooks.SecretName != "":
		return w.inSecret(ctx, r, namespace)
	case s.certificates.Token("") != "":
		return s.certificates, nil
	}
	return r.keep(cert.InMemory())
}

// inSecret returns what is in the Secret of all replicas: the secret of paths, and a certificate for the servers behind Services that have
// no files.
func (w *Servers) inSecret(ctx context.Context, r *Renewal, namespace string) (*cert.Source, error) {
	if w.shared != nil {
		return w.shared, nil
	}
	var names []string
	for _, server := range []WebhookServer{w.o.Webhooks.Admission, w.o.Webhooks.Conversion} {
		if w.o.Webhooks.CertManager == "" && !server.hasFiles() && server.URL == "" {
			for _, service := range []string{w.o.Webhooks.Admission.ServiceName, w.o.Webhooks.Conversion.ServiceName} {
				names = append(names, service+"."+namespace+".svc", service+"."+namespace+".svc.cluster.local")
			}
		}
	}
	var err error
	w.shared, err = r.keep(cert.InSecret(ctx, cert.SecretOptions{
		Client: w.client, Namespace: namespace, SecretName: w.o.Webhooks.SecretName, Names: names, Log: w.o.Log,
	}))
	return w.shared, err
}
