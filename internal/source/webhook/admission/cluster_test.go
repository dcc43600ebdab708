package admission

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// operator is a handler that listens, and a registrar that runs. Their webhooks review one namespace only.
type operator struct {
	*testing.T
	cluster   *testenv.Cluster
	namespace string
	server    *httptest.Server
	log       *logText
	stop      func() error
}

// in are webhooks that review ConfigMaps of a namespace, unless they specify other rules.
func in(namespace string, hooks ...*hook.Hook) []*hook.Hook {
	for _, h := range hooks {
		for _, list := range [][]hook.Admission{h.Validating, h.Mutating} {
			for i := range list {
				a := &list[i]
				a.NamespaceLabels = &hook.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
				if a.Rules == nil {
					a.Rules = rule("configmaps", "*")
				}
			}
		}
	}
	return hooks
}

func rule(resource string, operations ...string) []hook.Rule {
	return []hook.Rule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}, Operations: operations}}
}

func named(name string) hook.Binding { return hook.Binding{Name: name} }

// operate starts an operator with the name of the namespace, and returns when the API server calls its webhooks.
func operate(t *testing.T, c *testenv.Cluster, namespace string, runner Runner, hooks ...*hook.Hook) *operator {
	t.Helper()
	return operateWith(t, c, namespace, runner, RegistrarOptions{Hooks: hooks})
}

// operateWith does the same with more options.
func operateWith(t *testing.T, c *testenv.Cluster, namespace string, runner Runner, options RegistrarOptions) *operator {
	t.Helper()
	o := &operator{T: t, cluster: c, namespace: namespace, log: &logText{}}
	handler, err := New(Options{Hooks: in(namespace, options.Hooks...), Runner: runner, Log: o.log.logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	o.server = httptest.NewUnstartedServer(handler)
	o.server.EnableHTTP2 = true
	o.server.StartTLS()
	t.Cleanup(handler.Wait)
	t.Cleanup(o.server.Close)
	options.Client, options.ConfigurationName, options.URL = testenv.Client(t, c.Config(t)), namespace, o.server.URL
	options.Bundle = func() []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.server.Certificate().Raw})
	}
	options.Log = o.log.logger(t)
	r, err := NewRegistrar(complete(options))
	if err != nil {
		t.Fatal(err)
	}
	o.stop = run(t, r)
	return o
}

// run runs a registrar until both configurations have what can be registered. What it returns ends it.
func run(t *testing.T, r *Registrar) (stop func() error) {
	t.Helper()
	report, reconciled := r.opts.Report, make(chan hook.Kind, 10)
	r.opts.Report = func(kind hook.Kind, hooks []string, configuration string, err error) {
		if report != nil {
			report(kind, hooks, configuration, err)
		}
		if err == nil || strings.Contains(err.Error(), sharedName) {
			select {
			case reconciled <- kind:
			default: // it has been noticed
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx); close(done) }()
	stop = func() error { cancel(); return <-done }
	t.Cleanup(func() { _ = stop() })
	for kinds := map[hook.Kind]bool{}; len(kinds) < len(r.keepers); {
		select {
		case kind := <-reconciled:
			kinds[kind] = true
		case err := <-done:
			t.Fatalf("Run ended: %v", err)
		case <-time.After(test.Patience):
			t.Fatal("no registration")
		}
	}
	return stop
}

// kubectl returns what kubectl prints, whether it is successful or not.
func (o *operator) kubectl(input string, args ...string) string {
	o.Helper()
	out, _ := o.cluster.TryKubectl(input, append([]string{"-n", o.namespace}, args...)...)
	return out
}

// until tries again and again: the API server takes notice of configurations some time after they are written, and
// gives no sign.
func until(t *testing.T, try func() (got string, ok bool)) {
	t.Helper()
	deadline := time.Now().Add(test.Patience)
	for {
		got, ok := try()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still: %s", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (o *operator) says(want, input string, args ...string) {
	o.Helper()
	until(o.T, func() (string, bool) {
		got := o.kubectl(input, args...)
		return fmt.Sprintf("kubectl %s: got %s\nwant %s\nlog:\n%s", args, got, want, o.log), strings.Contains(got, want)
	})
}

// live returns a configuration, or nil when there is none.
func live(t *testing.T, c *testenv.Cluster, k kind, name string) *configuration {
	t.Helper()
	text := c.Kubectl(t, "get", k.resource, name+"-hooks", "-o", "json", "--ignore-not-found")
	if text == "" {
		return nil
	}
	var out configuration
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// testCA is a certificate for caBundle, which the API server validates.
func testCA(t *testing.T) []byte {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
