package webhook

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// serviceEnv is a namespace with the Pod of an operator.
type serviceEnv struct {
	*testenv.Cluster
	t       *testing.T
	ns      string
	options serviceOptions
	log     bytes.Buffer
}

func newServiceEnv(t *testing.T, edits ...func(*rest.Config)) *serviceEnv {
	c := testenv.Shared(t)
	e := &serviceEnv{Cluster: c, t: t, ns: c.Namespace(t)}
	config := c.Config(t)
	// Connections of our own, which end with the test.
	config.Proxy = http.ProxyFromEnvironment
	for _, edit := range edits {
		edit(config)
	}
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if http, ok := client.(*rest.RESTClient); ok {
			utilnet.CloseIdleConnectionsFor(http.Client.Transport)
		}
	})
	e.options = serviceOptions{Client: client, Namespace: e.ns, Name: "svc", Pod: "operator-0", Target: 9680,
		Log: slog.New(slog.NewTextHandler(&e.log, nil))}
	return e
}

// pod makes the operator's Pod.
func (e *serviceEnv) pod(labels string) {
	e.KubectlInput(e.t, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}`, "-n", e.ns, "apply", "-f", "-")
	e.KubectlInput(e.t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator-0", "labels": {`+labels+`}},
  "spec": {"containers": [{"name": "operator", "image": "operator:1"}]}}`, "-n", e.ns, "create", "-f", "-")
}

func (e *serviceEnv) ensure() {
	e.t.Helper()
	if err := ensureService(e.t.Context(), e.options, func(error) {}); err != nil {
		e.t.Fatal(err)
	}
}

// leads checks where the Service leads to.
func (e *serviceEnv) leads(want string) {
	e.t.Helper()
	got := e.Kubectl(e.t, "-n", e.ns, "get", "service", "svc", "--ignore-not-found", "-o",
		"jsonpath={.spec.selector} {.spec.ports[*].port}>{.spec.ports[*].targetPort}")
	if got != want {
		e.t.Errorf("the Service is %s, want %s\n%s", got, want, e.log.String())
	}
}

// says checks how often a text is in the log.
func (e *serviceEnv) says(text string, times int) {
	e.t.Helper()
	if n := strings.Count(e.log.String(), text); n != times {
		e.t.Errorf("the log says %q %d times, want %d:\n%s", text, n, times, e.log.String())
	}
}

func TestServiceMadeAndKept(t *testing.T) {
	t.Parallel()
	e := newServiceEnv(t)
	e.pod(`"app": "operator", "pod-template-hash": "12345", "app.kubernetes.io/version": "1"`)
	e.ensure()
	e.leads(`{"app":"operator"} 443>9680`)
	version := e.Kubectl(t, "-n", e.ns, "get", "service", "svc", "-o", "jsonpath={.metadata.resourceVersion}")
	e.ensure() // another replica
	if again := e.Kubectl(t, "-n", e.ns, "get", "service", "svc", "-o", "jsonpath={.metadata.resourceVersion}"); again != version {
		t.Error("the Service was written although nothing was to be changed")
	}
	e.says("is created", 1)

	// The next version serves elsewhere, and has other labels.
	e.options.Target, e.options.Selector = 1234, map[string]string{"role": "webhook"}
	e.ensure()
	e.leads(`{"role":"webhook"} 443>1234`)
	e.says("selects this operator now", 1)

	if err := removeService(t.Context(), e.options); err != nil {
		t.Error(err)
	}
	e.leads("")
	if err := removeService(t.Context(), e.options); err != nil {
		t.Errorf("there is none any more: %v", err)
	}
}

// A Service that a user has made stays unchanged.
func TestServiceForeign(t *testing.T) {
	t.Parallel()
	e := newServiceEnv(t)
	e.Kubectl(t, "-n", e.ns, "create", "service", "clusterip", "svc", "--tcp=443:1")
	e.ensure()
	if err := removeService(t.Context(), e.options); err != nil {
		t.Error(err)
	}
	e.leads(`{"app":"svc"} 443>1`)
	e.says("not created by the operator", 1)
}

// One warning names what is missing.
func TestServiceMissing(t *testing.T) {
	t.Parallel()
	var user string
	e := newServiceEnv(t, func(c *rest.Config) { user = "operator-of-" + t.Name(); c.Impersonate.UserName = user })
	fixed := func(warning string) {
		t.Helper()
		e.log.Reset()
		e.ensure()
		e.says("level=WARN", 1)
		e.says(warning, 1)
		e.leads("")
	}
	fixed(`verbs: [\"get\", \"patch\", \"delete\"]} and {apiGroups: [\"\"], resources: [\"services\"], verbs: [\"create\"]}`)
	e.Kubectl(t, "-n", e.ns, "create", "role", "services", "--verb=get,create,patch", "--resource=services")
	e.Kubectl(t, "-n", e.ns, "create", "rolebinding", "services", "--role=services", "--user="+user)
	e.UntilAllowed(t, user, e.ns, "patch", "services")
	fixed(`set --webhook-service-selector, or let the operator read its own labels`)
	e.Kubectl(t, "-n", e.ns, "create", "role", "pods", "--verb=get", "--resource=pods")
	e.Kubectl(t, "-n", e.ns, "create", "rolebinding", "pods", "--role=pods", "--user="+user)
	e.UntilAllowed(t, user, e.ns, "get", "pods")
	fixed(`set POD_NAME in the Pod from its field metadata.name`)
	e.pod(`"pod-template-hash": "12345"`)
	fixed(`has no labels by which a Service could select it`)
	e.Kubectl(t, "-n", e.ns, "label", "pod", "operator-0", "app=operator")
	e.ensure()
	e.leads(`{"app":"operator"} 443>9680`)

	if err := removeService(t.Context(), e.options); err == nil || !strings.Contains(err.Error(), `verbs: ["get", "patch", "delete"]`) {
		t.Errorf("it may not be removed: %v", err)
	}
}

// What the API server never accepts ends the start.
func TestServiceRefused(t *testing.T) {
	t.Parallel()
	e := newServiceEnv(t)
	e.options.Selector = map[string]string{"not a label": "x"}
	if err := ensureService(t.Context(), e.options, func(error) {}); err == nil ||
		!strings.Contains(err.Error(), `cannot make Service "svc"`) || !strings.Contains(err.Error(), "spec.selector") {
		t.Error(err)
	}
}
