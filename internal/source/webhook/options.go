package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
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
