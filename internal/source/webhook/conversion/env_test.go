package conversion

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// env is a Handler behind HTTPS that the API server of the tests reaches, and a CRD for it.
type env struct {
	*testenv.Cluster
	t  *testing.T
	ns string
	// group and crd are the test's own.
	group, crd string
	hooks      []*hook.Hook
	url        string
	log        test.Text

	mu          sync.Mutex // guards what follows
	certificate *tls.Certificate
	bundle      []byte
	changed     chan struct{}
	// convert is what hooks do with one object; steps counts what they did.
	convert func(s hook.ConversionStep, object map[string]any) error
	steps   map[hook.ConversionStep]int
	// lose makes a hook lose its last object.
	lose bool
}

// begin starts an env whose CRD is not there yet. Hooks have steps as in the function hooks.
func begin(t *testing.T, steps ...string) *env {
	c := testenv.Shared(t)
	e := &env{Cluster: c, t: t, ns: c.Namespace(t), changed: make(chan struct{}), steps: map[hook.ConversionStep]int{}}
	e.group = e.ns + ".example.com"
	e.crd = "jobs." + e.group
	e.hooks = hooks(e.crd, steps...)
	e.renew()
	e.convert = renameField
	server := httptest.NewUnstartedServer(NewHandler(Options{Hooks: e.hooks, Runner: e, Log: e.logger()}))
	server.Listener = tls.NewListener(server.Listener, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.certificate, nil
	}})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	e.url = "https://" + server.Listener.Addr().String()
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "crd", e.crd, "--ignore-not-found") // while its objects can be read
		server.CloseClientConnections()
		server.Close()
		if t.Failed() {
			t.Log(&e.log)
		}
	})
	return e
}

// field is the name that the one field of spec has in a version.
func field(version string) string {
	_, short, _ := strings.Cut(version, "/")
	return map[string]string{"v1alpha1": "alpha", "v1beta1": "beta", "v1": "final"}[short]
}

func renameField(s hook.ConversionStep, object map[string]any) error {
	spec, _ := object["spec"].(map[string]any)
	from := field(object["apiVersion"].(string))
	if value, ok := spec[from]; ok {
		delete(spec, from)
		spec[field("/"+s.To)] = value
	}
	return nil
}

// Convert implements Runner.
func (e *env) Convert(_ context.Context, r Review) (*effect.ConversionAnswer, error) {
	h, index, s, text := r.Hook, r.Index, r.Step, r.Body
	var in struct {
		Request struct{ Objects []map[string]any }
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps[s]++
	answer := &effect.ConversionAnswer{}
	for _, o := range in.Request.Objects {
		if err := e.convert(s, o); err != nil {
			answer.Failure = err.Error()
		}
		o["apiVersion"] = full(h.Conversions[index].CRDName, s.To)
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		answer.Objects = append(answer.Objects, raw)
	}
	if e.lose {
		answer.Objects = answer.Objects[1:]
	}
	return judged(r, answer, nil)
}

// renew makes a new self-signed certificate.
func (e *env) renew() {
	e.t.Helper()
	certificate := test.NewCertificate(e.t)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.certificate, e.bundle = &certificate.Certificate, certificate.CertPEM
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
	r := NewRegistrar(complete(RegistrarOptions{Client: testenv.Client(e.t, config), Hooks: e.hooks, URL: e.url, Bundle: e.currentBundle,
		Changes: []func() <-chan struct{}{func() <-chan struct{} {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.changed
		}}, Log: e.logger()}))
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

// create makes the CRD, without a conversion. Objects are stored in v1.
func (e *env) create() {
	e.t.Helper()
	version := func(name string) string {
		return fmt.Sprintf(`{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, `+
			`properties: {%s: {type: string}}}}}}}`,
			name, name == "v1", field("/"+name))
	}
	e.KubectlInput(e.t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s},
  spec: {group: %s, scope: Namespaced, names: {kind: Job, listKind: JobList, plural: jobs, singular: job}, versions: [%s, %s, %s]}}`,
		e.crd, e.group, version("v1alpha1"), version("v1beta1"), version("v1")), "create", "-f", "-")
	e.Kubectl(e.t, "wait", "--for=condition=Established", "--timeout=60s", "crd/"+e.crd)
}

// ready waits until the API server asks the hooks: it takes a moment for it to see a change of the CRD. There is
// nothing to watch for that.
func (e *env) ready() {
	e.t.Helper()
	e.KubectlInput(e.t, e.job("v1", "probe", "x"), "apply", "-f", "-")
	e.eventually("the API server asks the hooks", func() bool {
		out, err := e.try("", "get", "jobs.v1beta1."+e.group, "probe", "-o", "jsonpath={.spec.beta}")
		return err == nil && out == "x"
	})
	e.Kubectl(e.t, "delete", "-n", e.ns, "jobs.v1."+e.group, "probe")
}

func (e *env) eventually(what string, done func() bool) {
	e.t.Helper()
	for start := time.Now(); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > test.Patience {
			e.t.Fatal("waited too long until ", what)
		}
	}
}

func (e *env) job(version, name, value string) string {
	return fmt.Sprintf("{apiVersion: %s/%s, kind: Job, metadata: {name: %s, namespace: %s}, spec: {%s: %q}}\n---\n", e.group, version, name,
		e.ns, field("/"+version), value)
}

// get reads one value of an object in a version.
func (e *env) get(version, name, path string) string {
	e.t.Helper()
	return e.Kubectl(e.t, "get", "-n", e.ns, "jobs."+version+"."+e.group, name, "-o", "jsonpath={"+path+"}")
}

// try is kubectl that may fail.
func (e *env) try(input string, args ...string) (string, error) {
	out, err := e.TryKubectl(input, append([]string{"-n", e.ns}, args...)...)
	return strings.TrimSpace(out), err
}

// refused runs kubectl, which has to fail with a text.
func (e *env) refused(want, input string, args ...string) {
	e.t.Helper()
	out, err := e.try(input, args...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(out, want) {
		e.t.Errorf("kubectl %s: %v, got\n%s\nwant\n%s", strings.Join(args, " "), err, out, want)
	}
}

func (e *env) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&e.log, nil))
}

// says waits until a text is in the log so many times.
func (e *env) says(text string, times int) {
	e.t.Helper()
	e.log.Until(e.t, text, times)
}

// with runs do with the lock, for changes of what hooks do.
func (e *env) with(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
}
