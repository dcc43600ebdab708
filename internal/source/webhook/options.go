package webhook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// WebhookOptions configure the webhooks.
type WebhookOptions struct {
	Admission, Conversion WebhookServer
	// ConfigurationName begins the names of the webhook configurations.
	ConfigurationName string
	// FailurePolicy applies to validating bindings without one.
	FailurePolicy string
	// ExcludeNamespaces are not reviewed, unless a binding selects namespaces by name.
	ExcludeNamespaces []string
	// ExcludeUsers and ExcludeGroups are clients whose requests are not reviewed.
	ExcludeUsers, ExcludeGroups []string
	// Namespace is where the Services are. Empty means the namespace of the Pod.
	Namespace string
	// CertManager is a Certificate of cert-manager, as "namespace/name", whose CA cert-manager injects. Then all
	// certificates are files.
	CertManager string
	// SecretName is the Secret of the certificates that the operator creates, and of the secret of paths.
	SecretName string
	// PathSecretFile has the secret of paths, for registrations that others write; empty means the secret in the Secret.
	PathSecretFile string
	// NoRegistration serves and registers no webhooks.
	NoRegistration bool
	// ClientNames are the accepted names of client certificates; empty accepts every certificate of the client CA.
	ClientNames []string
}

// WebhookServer configures one of the servers.
type WebhookServer struct {
	// ListenAddress is "host:port".
	ListenAddress string
	ServiceName   string
	// Cert, Key and CA are PEM files. If Cert does not exist and FilesGiven is not set, the operator creates certificates.
	Cert, Key, CA string
	FilesGiven    bool
	ClientCA      []string
	// URL is the base URL of this server; empty means a Service or the own address.
	URL string
}

// hasFiles reports whether the certificates are files.
func (s *WebhookServer) hasFiles() bool {
	_, err := os.Stat(s.Cert)
	return s.FilesGiven || !errors.Is(err, fs.ErrNotExist)
}

// checkURLs rejects one URL for both servers unless their certificates are files: otherwise each server has a certificate of
// its own, and no proxy can present both at one address.
func (o *WebhookOptions) checkURLs() error {
	url := strings.TrimSuffix(o.Admission.URL, "/")
	if url == "" || url != strings.TrimSuffix(o.Conversion.URL, "/") || o.CertManager != "" ||
		o.Admission.hasFiles() && o.Conversion.hasFiles() {
		return nil
	}
	return fmt.Errorf("admission and conversion webhooks are served on two ports, but both have the URL %q: give each its own by "+
		"--validating-webhook-url and --conversion-webhook-url, "+
		"or give certificate files and let something at this URL send paths below /hooks/ to the first and all others to the second", url)
}

// HTTPOptions configure the HTTP hooks.
type HTTPOptions struct {
	// ListenAddress is "host:port". Beyond loopback Cert and Key are required, and clients are authenticated.
	ListenAddress string
	// Cert and Key are PEM files, reloaded when they change; empty means HTTP without TLS.
	Cert, Key string
	// Authentication authenticates clients on loopback, too.
	Authentication bool
	// Parallel limits the requests in flight per hook.
	Parallel int
	// BodyLimit is the size limit of bodies.
	BodyLimit int
}
