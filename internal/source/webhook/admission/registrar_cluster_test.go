package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
	"k8s.io/apimachinery/pkg/types"
)

// cleanup removes configurations that a test may leave behind.
func cleanup(t *testing.T, c *testenv.Cluster, name string) {
	t.Cleanup(func() {
		for _, k := range []kind{validating, mutating} {
			c.Kubectl(t, "delete", k.resource, name+"-hooks", "--ignore-not-found")
		}
	})
}

var somewhere = types.NamespacedName{Name: "svc", Namespace: "no-such-namespace"}

// inCluster are the options of a Registrar for a cluster.
func inCluster(t *testing.T, c *testenv.Cluster, name string, hooks []*hook.Hook) RegistrarOptions {
	return by(testenv.Client(t, c.Config(t)), name, hooks)
}

// by are the options of a Registrar with a client.
func by(client rest.Interface, name string, hooks []*hook.Hook) RegistrarOptions {
	return RegistrarOptions{Hooks: hooks, ConfigurationName: name, Target: keep.Target{Client: client, Service: somewhere}}
}

// What is registered is what the API server makes of it, so it is written only once.
func TestWrittenOnce(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	for _, target := range []keep.Target{{Service: somewhere}, {URL: "https://127.0.0.1:1/base"}} {
		target.Client = testenv.Client(t, c.Config(t))
		o := RegistrarOptions{Hooks: quietFull(), ConfigurationName: name, Target: target}
		r, log := newRegistrar(t, o)
		stop := run(t, r)
		for _, k := range r.keepers {
			got := live(t, c, k.kind, name)
			if want := k.desired(got, nil); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		}
		replica, replicaLog := newRegistrar(t, o)
		for range 2 {
			for _, k := range replica.keepers {
				if err := k.reconcile(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		if replicaLog.String() != "" {
			t.Errorf("a replica has something to do:\n%s", replicaLog)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "Webhooks are registered"); n != 2 {
			t.Errorf("written %d times:\n%s", n, log)
		}
		// What is registered by Service stays. The next one takes it over.
		if there := live(t, c, validating, name) != nil; there != (o.URL == "") {
			t.Errorf("after the end: %v", there)
		}
	}
}

// Webhooks that the API server rejects are named before they are registered, and remove nothing that is.
func TestRejected(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	options := inCluster(t, c, name, quietFull())
	reported := make(chan string, 100)
	invalid := func() *Registrar {
		o := options
		o.Hooks, o.Report = quietFull(), func(_ hook.Kind, _ []string, object string, err error) { reported <- fmt.Sprint(object, err) }
		o.Hooks[0].Validating[0].MatchConditions[0].Expression = "this is no CEL"
		r, _ := newRegistrar(t, o)
		return r
	}
	r := invalid()
	want := fmt.Sprintf(`the API server rejects the webhook %q of hook %q: matchConditions[0].expression "this is no CEL": `,
		r.opts.Hooks[0].Validating[0].Name, r.opts.Hooks[0].Name)
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("before anything is registered: %v, want %s", err, want)
	}
	good, _ := newRegistrar(t, options)
	if err := good.Check(t.Context()); err != nil || live(t, c, validating, name) != nil {
		t.Errorf("a check: %v, or it is registered", err)
	}
	run(t, good)
	before := live(t, c, validating, name)
	r = invalid()
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("later: %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for got := ""; !strings.HasPrefix(got, validating.name) || !strings.Contains(got, "it does not compile: "); {
		got = test.Receive(t, reported, "report")
	}
	cancel(ErrReplaced)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after := live(t, c, validating, name); after == nil || !equality.Semantic.DeepEqual(after.Webhooks, before.Webhooks) {
		t.Errorf("registered is %+v", after)
	}
}

// Nothing hangs while the API server is away.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	o := by(testenv.Client(t, &rest.Config{Host: "https://127.0.0.1:1"}), "", quietFull())
	r, _ := newRegistrar(t, o)
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
	o.URL = "https://x"
	r, _ = newRegistrar(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "stays behind") {
		t.Error(err)
	}
}
