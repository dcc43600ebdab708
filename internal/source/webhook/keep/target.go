package keep

import (
	"log/slog"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// InjectAnnotation makes cert-manager inject the CAs of a Certificate, "namespace/name", into an object.
const InjectAnnotation = "cert-manager.io/inject-ca-from"

// Target is a webhook server, to which registrations lead. Client and Log are required, and either Service or URL; to register also Ready,
// Stuck, Bundle, Seen and Report.
type Target struct {
	Client rest.Interface
	// Service leads to the server inside a cluster, by port 443. URL is the base URL of the server elsewhere, without a slash at its end.
	Service types.NamespacedName
	URL     string
	// Ready reports whether a binding can answer. What is registered for others stays as it is.
	Ready func(*hook.Hook, hook.Address) bool
	// Stuck is why bindings of a hook that are not ready do not become so by themselves; empty if they may.
	Stuck func(*hook.Hook) string
	// Bundle returns the PEM of the CAs that the API server must trust; empty means its own ones.
	Bundle func() []byte
	// CertManager is a Certificate of cert-manager, as "namespace/name". Then cert-manager injects the CAs, and Bundle is not used.
	CertManager string
	// Token returns the secret last segment of a registered path. Nil means that paths have none.
	Token func(path string) string
	// Changes return channels that are closed when Ready, Stuck, Bundle or Token change.
	Changes []func() <-chan struct{}
	// Leading is closed when this process registers; until then it only reads. Nil means from the beginning.
	Leading <-chan struct{}
	// Seen receives the paths or URLs in an object in the cluster, whenever it is read. Open means that a permission to read it is missing:
	// then the paths are those without a token.
	Seen func(object string, paths []string, open bool)
	// Report receives why the bindings of hooks are not registered in an object, after each attempt; nil if they are, and at the end.
	Report func(kind hook.Kind, hooks []string, object string, err error)
	Log    *slog.Logger
}

// Registers reports whether this process registers.
func (t *Target) Registers() bool { return t.begins() == nil }

// begins is closed when this process begins to register; nil if it does.
func (t *Target) begins() <-chan struct{} {
	select {
	case <-t.Leading:
		return nil
	default:
		return t.Leading
	}
}

// ClientConfig is how the API server calls a path.
func (t *Target) ClientConfig(path string, bundle []byte) admissionregistration.WebhookClientConfig {
	if t.Token != nil {
		path += "/" + t.Token(path)
	}
	if t.URL != "" {
		return admissionregistration.WebhookClientConfig{CABundle: bundle, URL: new(t.URL + path)}
	}
	return admissionregistration.WebhookClientConfig{CABundle: bundle, Service: &admissionregistration.ServiceReference{
		Name: t.Service.Name, Namespace: t.Service.Namespace, Path: &path, Port: new(int32(443)),
	}}
}

// PathOf is the path or URL that the API server calls; empty for none.
func PathOf(c admissionregistration.WebhookClientConfig) string {
	switch {
	case c.URL != nil:
		return *c.URL
	case c.Service != nil && c.Service.Path != nil:
		return *c.Service.Path
	}
	return ""
}

// Keep completes an object that leads to the target, for bindings of a kind of these hooks.
func (t *Target) Keep(o Object, kind hook.Kind, hooks []string) Object {
	o.Client, o.Changes = t.Client, append(t.Changes[:len(t.Changes):len(t.Changes)], t.begins)
	o.Report = func(err error) { t.Report(kind, hooks, o.Subject(), err) }
	return o
}
