package conversion

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// env is a CRD on a real API server, which leads to a server that is not there: the API server calls none without objects.
type env struct {
	*testenv.Cluster
	t  *testing.T
	ns string
	// group and crd are the test's own.
	group, crd string
	url        string
	log        test.Text

	mu      sync.Mutex // guards what follows
	bundle  []byte
	changed chan struct{}
}

// begin starts an env whose CRD is not there yet.
func begin(t *testing.T) *env {
	c := testenv.Shared(t)
	e := &env{Cluster: c, t: t, ns: c.Namespace(t), url: "https://127.0.0.1:1", changed: make(chan struct{})}
	e.group = e.ns + ".example.com"
	e.crd = "jobs." + e.group
	e.renew()
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "crd", e.crd, "--ignore-not-found")
		if t.Failed() {
			t.Log(&e.log)
		}
	})
	return e
}

// renew makes a new self-signed certificate.
func (e *env) renew() {
	e.t.Helper()
	certificate := test.NewCertificate(e.t)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bundle = certificate.CertPEM
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *env) currentBundle() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bundle
}

// register runs a Registrar until the test ends.
func (e *env) register(edits ...func(*rest.Config)) {
	e.t.Helper()
	config := e.Config(e.t)
	for _, edit := range edits {
		edit(config)
	}
	r := NewRegistrar(RegistrarOptions{Hooks: hooks(e.crd, "v1beta1>v1 v1>v1beta1"), Converted: func(string) {}, Target: complete(keep.Target{
		Client: testenv.Client(e.t, config), URL: e.url, Bundle: e.currentBundle, Log: slog.New(slog.NewTextHandler(&e.log, nil)),
		Changes: []func() <-chan struct{}{func() <-chan struct{} {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.changed
		}},
	})})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	e.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Error(err)
		}
	})
}

// create makes the CRD, without a conversion.
func (e *env) create() {
	e.t.Helper()
	const schema = "schema: {openAPIV3Schema: {type: object}}"
	e.KubectlInput(e.t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s},
  spec: {group: %s, scope: Namespaced, names: {kind: Job, listKind: JobList, plural: jobs, singular: job}, versions: [
  {name: v1beta1, served: true, storage: false, %s}, {name: v1, served: true, storage: true, %[3]s}]}}`,
		e.crd, e.group, schema), "create", "-f", "-")
	e.Kubectl(e.t, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+e.crd)
}

// says waits until a text is in the log so many times.
func (e *env) says(text string, times int) {
	e.t.Helper()
	e.log.Until(e.t, text, times)
}
