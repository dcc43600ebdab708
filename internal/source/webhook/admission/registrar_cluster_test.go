package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
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

// as is a client of a user who may do only this with webhook configurations.
func as(t *testing.T, c *testenv.Cluster, user string, verbs ...string) rest.Interface {
	t.Helper()
	if len(verbs) > 0 {
		c.Kubectl(t, "create", "clusterrole", user, "--verb="+strings.Join(verbs, ","), "--resource="+validating.resource+","+mutating.resource)
		c.Kubectl(t, "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
		t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole/"+user, "clusterrolebinding/"+user) })
		c.UntilAllowed(t, user, "default", verbs[0], validating.resource)
	}
	config := c.Config(t)
	config.Impersonate.UserName = user
	return testenv.Client(t, config)
}

// The permissions that the original needs are enough.
func TestOldPermissions(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	var mu sync.Mutex
	changed := make(chan struct{})
	certificates := string(testCA(t))
	bundle := []byte(certificates)
	o := by(as(t, c, "user-"+name, "list", "create", "update"), name, quietFull())
	o.Bundle = func() []byte { mu.Lock(); defer mu.Unlock(); return bundle }
	o.Changes = []func() <-chan struct{}{func() <-chan struct{} { mu.Lock(); defer mu.Unlock(); return changed }}
	r, log := newRegistrar(t, o)
	run(t, r)
	until(t, func() (string, bool) {
		return log.String(), strings.Count(log.String(), "No permission to watch") == 2
	})
	// A new bundle is applied immediately. An edit waits for a minute.
	mu.Lock()
	bundle = []byte(certificates + certificates)
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	until(t, func() (string, bool) {
		got := string(live(t, c, validating, name).Webhooks[0].ClientConfig.CABundle)
		return got, got == certificates+certificates
	})
}

// Webhooks that the API server rejects are named before they are registered, and remove nothing that is.
func TestRejected(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	options := inCluster(t, c, name, quietFull())
	invalid := func() (*Registrar, *reports) {
		o, seen := options, &reports{}
		o.Hooks, o.Report = quietFull(), seen.report
		o.Hooks[0].Validating[0].MatchConditions[0].Expression = "this is no CEL"
		r, _ := newRegistrar(t, o)
		return r, seen
	}
	r, _ := invalid()
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
	r, seen := invalid()
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("later: %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	seen.until(t, validating.name+" "+name+"-hooks true", "it does not compile: ")
	cancel(ErrReplaced)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after := live(t, c, validating, name); after == nil || !equality.Semantic.DeepEqual(after.Webhooks, before.Webhooks) {
		t.Errorf("registered is %+v", after)
	}
}

// With cert-manager the CA is what cert-manager writes.
func TestCertManager(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	o := inCluster(t, c, name, quietFull())
	o.CertManager, o.Bundle = "ns/cert", func() []byte { return []byte("not asked") }
	r, _ := newRegistrar(t, o)
	stop := run(t, r)
	got := live(t, c, validating, name)
	if got.Annotations["cert-manager.io/inject-ca-from"] != "ns/cert" || got.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("got %+v", got)
	}
	for i := range got.Webhooks {
		got.Webhooks[i].ClientConfig.CABundle = testCA(t)
	}
	k := r.keepers[0]
	if err := k.put(t.Context(), got, got); err != nil {
		t.Fatal(err)
	}
	// Another client changes another field.
	c.Kubectl(t, "patch", validating.resource, name+"-hooks", "--type=json", `--patch=[{"op":"remove","path":"/webhooks/0"}]`)
	until(t, func() (string, bool) {
		after := live(t, c, validating, name)
		return fmt.Sprint(after), equality.Semantic.DeepEqual(after.Webhooks, got.Webhooks)
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	// Without cert-manager its annotation goes: it would write another CA.
	own, _ := newRegistrar(t, inCluster(t, c, name, quietFull()))
	run(t, own)
	if got := live(t, c, validating, name); got.Annotations["cert-manager.io/inject-ca-from"] != "" ||
		got.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("got %+v", got)
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

// reports has the last report about each object.
type reports struct {
	mu  sync.Mutex
	all map[string]error
}

func (r *reports) report(_ hook.Kind, hooks []string, configuration string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]error{}
	}
	r.all[fmt.Sprintf("%s %t", configuration, len(hooks) > 0)] = err
}

func (r *reports) until(t *testing.T, configuration, want string) {
	t.Helper()
	until(t, func() (string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		err := r.all[configuration]
		return fmt.Sprint(r.all), want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want)
	})
}

// restrict allows a user to change the named configurations only.
func restrict(t *testing.T, c *testenv.Cluster, user, verbs string, names ...string) {
	t.Helper()
	resources := ""
	for _, name := range names {
		resources += " --resource-name=" + name
	}
	args := append([]string{"create", "clusterrole", user, "--verb=" + verbs, "--resource=" + validating.resource + "," + mutating.resource},
		strings.Fields(resources)...)
	c.Kubectl(t, args...)
	c.Kubectl(t, "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole/"+user, "clusterrolebinding/"+user) })
	for _, name := range names {
		c.UntilAllowed(t, user, "default", "list", validating.resource+"/"+name)
	}
}

// chart creates the configurations without webhooks, as Helm would.
func chart(t *testing.T, c *testenv.Cluster, name string) {
	t.Helper()
	for _, k := range []kind{validating, mutating} {
		c.KubectlInput(t,
			fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": %q, "metadata": {"name": %q, `+
				`"labels": {"app.kubernetes.io/managed-by": "Helm"}}}`, k.name, name+"-hooks"), "create", "-f", "-")
	}
}

// Configurations that a chart creates are written by an operator that may only update those, keep their creator, and are emptied when no
// hook needs them. Until they exist, that is reported.
func TestCreatedByAChart(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	client := as(t, c, "chart-"+name)
	restrict(t, c, "chart-"+name, "list,watch,update", name+"-hooks")
	var seen reports
	o := by(client, name, quietFull())
	o.Report = seen.report
	first, _ := newRegistrar(t, o)
	stop, _ := running(t, first)
	of := validating.name + " " + name + "-hooks"
	seen.until(t, of+" true",
		"there is no "+validating.name+` "`+name+`-hooks", and no permission to create it: create it without webhooks, `+
			`as 'shell-operator rbac' prints it, and the chart with webhooks.validating`)
	chart(t, c, name)
	seen.until(t, of+" true", "")
	seen.until(t, mutating.name+" "+name+"-hooks true", "")
	if got := live(t, c, validating, name); len(got.Webhooks) != 3 || got.Labels[managedByLabel] != "Helm" {
		t.Errorf("registered is %+v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	second, log := newRegistrar(t, by(client, name, nil))
	run(t, second)
	for _, k := range []kind{validating, mutating} {
		until(t, func() (string, bool) {
			got := live(t, c, k, name)
			return log.String(), got != nil && len(got.Webhooks) == 0 && got.Labels[managedByLabel] == "Helm"
		})
	}
}

// Webhooks that no hook has any more, and that the operator may not remove, are reported until it may.
func TestCannotRemove(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	first, _ := newRegistrar(t, inCluster(t, c, name, quietFull()))
	if err := run(t, first)(); err != nil {
		t.Fatal(err)
	}
	var seen reports
	user := "reader-" + name
	client := as(t, c, user)
	restrict(t, c, user, "list,watch", name+"-hooks")
	o := by(client, name, nil)
	o.Report = seen.report
	r, log := newRegistrar(t, o)
	running(t, r)
	of := validating.name + " " + name + "-hooks false"
	seen.until(t, of, "no permission for validatingwebhookconfigurations")
	if !strings.Contains(log.String(), "with failure policy Fail they block requests") {
		t.Errorf("logged is\n%s", log)
	}
	c.Kubectl(t, "patch", "clusterrole", user, "--type=json", `--patch=[{"op": "add", "path": "/rules/0/verbs/-", "value": "update"}]`)
	seen.until(t, of, "")
	if got := live(t, c, validating, name); got == nil || len(got.Webhooks) > 0 {
		t.Errorf("left is %+v", got)
	}
}
