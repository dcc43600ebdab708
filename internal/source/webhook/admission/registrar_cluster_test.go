package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// cleanup removes configurations that a test may leave behind.
func cleanup(t *testing.T, c *testenv.Cluster, name string) {
	t.Cleanup(func() {
		for _, k := range []kind{validating, mutating} {
			c.Kubectl(t, "delete", k.resource, name+"-hooks", "--ignore-not-found")
		}
	})
}

var somewhere = Service{"svc", "no-such-namespace"}

// What is registered is what the API server makes of it, so it is written only once.
func TestWrittenOnce(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	for _, o := range []RegistrarOptions{{Service: somewhere}, {URL: "https://127.0.0.1:1/base"}} {
		o.Client, o.Hooks, o.ConfigurationName = testenv.Client(t, c.Config(t)), quietFull(), name
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
				if again, err := k.reconcile(t.Context()); again != 0 || err != nil {
					t.Error(again, err)
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

// Edited and deleted configurations are restored.
func TestRestored(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	r, _ := newRegistrar(t, RegistrarOptions{Client: testenv.Client(t, c.Config(t)), Hooks: quietFull(), ConfigurationName: name,
		Service: somewhere})
	hurry(r)
	run(t, r)
	object := func(k kind) string { return k.resource + "/" + name + "-hooks" }
	for _, k := range []kind{validating, mutating} {
		before := live(t, c, k, name)
		for _, damage := range [][]string{
			{"patch", object(k), "--type=json", `--patch=[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`},
			{"patch", object(k), "--type=json", `--patch=[{"op":"remove","path":"/webhooks/0"}]`},
			{"delete", object(k)},
		} {
			c.Kubectl(t, damage...)
			until(t, func() (string, bool) {
				after := live(t, c, k, name)
				return fmt.Sprint(damage, after), after != nil && equality.Semantic.DeepEqual(after.Webhooks, before.Webhooks)
			})
		}
		// Metadata of others is theirs.
		c.Kubectl(t, "label", object(k), "mine=yes")
		c.Kubectl(t, "patch", object(k), "--type=json", `--patch=[{"op":"remove","path":"/webhooks"}]`)
		until(t, func() (string, bool) {
			after := live(t, c, k, name)
			return fmt.Sprint(after), len(after.Webhooks) > 0 && after.Labels["mine"] == "yes"
		})
	}
}

// A configuration without bindings goes, if it was ours.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	options := func(hooks []*hook.Hook, service Service) RegistrarOptions {
		return RegistrarOptions{Client: testenv.Client(t, c.Config(t)), Hooks: hooks, ConfigurationName: name, Service: service}
	}
	first, _ := newRegistrar(t, options(quietFull(), somewhere))
	if err := run(t, first)(); err != nil {
		t.Fatal(err)
	}
	other, _ := newRegistrar(t, options(nil, Service{"svc", "another-namespace"}))
	if err := other.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live(t, c, validating, name) == nil || live(t, c, mutating, name) == nil {
		t.Fatal("what belongs to another Service was removed")
	}
	hooks := quietFull()
	for _, h := range hooks {
		h.Mutating = nil
	}
	second, _ := newRegistrar(t, options(hooks, somewhere))
	if err := run(t, second)(); err != nil {
		t.Fatal(err)
	}
	if live(t, c, validating, name) == nil || live(t, c, mutating, name) != nil {
		t.Error("want the validating one and no other")
	}
	third, _ := newRegistrar(t, options(nil, somewhere))
	for range 2 {
		if err := third.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if live(t, c, validating, name) != nil {
		t.Error("still there")
	}
}

// Of two operators that want different webhooks the newer one gets them, as long as it is there.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	var disputes sync.Map // reports of both, by configuration
	start := func(h *hook.Hook) (*Registrar, *logText) {
		return newRegistrar(t, RegistrarOptions{
			Client: testenv.Client(t, c.Config(t)), Hooks: []*hook.Hook{h}, ConfigurationName: name, Service: somewhere,
			Report: func(_ hook.Kind, hooks []string, configuration string, err error) {
				if about := [2]string{configuration, fmt.Sprint(hooks)}; err == nil {
					disputes.Delete(about)
				} else {
					disputes.Store(about, err.Error())
				}
			},
		})
	}
	disputed := func() (text string) {
		disputes.Range(func(about, dispute any) bool {
			text += fmt.Sprintf("%s: %s\n", about, dispute)
			return true
		})
		return text
	}
	hooks := quietFull()
	old, oldLog := start(hooks[0])
	old.keepers[0].recheck = 3 * time.Second
	run(t, old)
	newer, _ := start(hooks[1])
	stop := run(t, newer)
	count := func() int { return len(live(t, c, validating, name).Webhooks) }
	if count() != 1 {
		t.Error("the newer one's are not there")
	}
	until(t, func() (string, bool) {
		return "the older one reports " + disputed(), strings.Contains(disputed(),
			`with the Service no-such-namespace/svc has changed the webhook configuration, `+
				"the next write of this operator follows in 3s: does another installation use the same configuration name?")
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	until(t, func() (string, bool) { return "the older one has not taken over", count() == 2 })
	until(t, func() (string, bool) {
		return "still disputed: " + disputed(), !strings.Contains(disputed(), "[Validating")
	})
	if n := strings.Count(oldLog.String(), "Another client changes the webhook configuration"); n != 2 {
		t.Errorf("want one record for each kind:\n%s", oldLog)
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

func hurry(r *Registrar) {
	for _, k := range r.keepers {
		k.delays = []time.Duration{time.Millisecond}
		k.recheck, k.restoreEvery = 200*time.Millisecond, time.Millisecond
	}
}

func TestNoPermission(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	hooks := quietFull()
	for _, h := range hooks {
		h.Mutating = nil
	}
	var seen reports
	r, _ := newRegistrar(t, RegistrarOptions{Client: as(t, c, "nobody-"+name), Hooks: hooks, ConfigurationName: name, Service: somewhere,
		Report: seen.report})
	hurry(r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	seen.until(t, validating.name+" "+name+"-hooks true",
		`no permission for validatingwebhookconfigurations: give the operator's ServiceAccount, by a ClusterRole, `+
			`the rule {apiGroups: ["admissionregistration.k8s.io"], resources: ["validatingwebhookconfigurations"], resourceNames: ["`+name+
			`-hooks"], verbs: ["list", "watch", "update"]}`)
	select {
	case err := <-ended:
		t.Errorf("it ends: %v", err)
	default:
	}
	seen.mu.Lock()
	if err := seen.all[mutating.name+" "+name+"-hooks false"]; err != nil {
		t.Errorf("a kind without bindings is reported: %v", err)
	}
	seen.mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
	r, log := newRegistrar(t, RegistrarOptions{
		Client: as(t, c, "user-"+name, "list", "create", "update"), Hooks: quietFull(), ConfigurationName: name, Service: somewhere,
		Bundle:  func() []byte { mu.Lock(); defer mu.Unlock(); return bundle },
		Changes: []func() <-chan struct{}{func() <-chan struct{} { mu.Lock(); defer mu.Unlock(); return changed }},
	})
	hurry(r)
	run(t, r)
	until(t, func() (string, bool) {
		return log.String(), strings.Count(log.String(), "No permission to watch") == 2
	})
	// A new bundle is applied immediately, an edit with a delay.
	mu.Lock()
	bundle = []byte(certificates + certificates)
	close(changed)
	changed = make(chan struct{})
	mu.Unlock()
	until(t, func() (string, bool) {
		got := string(live(t, c, validating, name).Webhooks[0].ClientConfig.CABundle)
		return got, got == certificates+certificates
	})
	c.Kubectl(t, "delete", validating.resource, name+"-hooks")
	until(t, func() (string, bool) { return "deleted", live(t, c, validating, name) != nil })
	if n := strings.Count(log.String(), "No permission to watch"); n != 2 {
		t.Errorf("want one warning for each kind:\n%s", log)
	}
}

// Webhooks that the API server rejects are named before they are registered, and remove nothing that is.
func TestRejected(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	options := RegistrarOptions{Client: testenv.Client(t, c.Config(t)), Hooks: quietFull(), ConfigurationName: name,
		URL: "https://127.0.0.1:1"}
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
	seen.until(t, validating.name+" "+name+"-hooks true", "matchConditions")
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
	r, _ := newRegistrar(t, RegistrarOptions{
		Client: testenv.Client(t, c.Config(t)), Hooks: quietFull(), ConfigurationName: name, Service: somewhere, CertManager: "ns/cert",
		Bundle: func() []byte { return []byte("not asked") },
	})
	stop := run(t, r)
	got := live(t, c, validating, name)
	if got.Annotations["cert-manager.io/inject-ca-from"] != "ns/cert" || got.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("got %+v", got)
	}
	for i := range got.Webhooks {
		got.Webhooks[i].ClientConfig.CABundle = testCA(t)
	}
	k := r.keepers[0]
	if err := k.update(t.Context(), got); err != nil {
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
	own, _ := newRegistrar(t, RegistrarOptions{Client: testenv.Client(t, c.Config(t)), Hooks: quietFull(), ConfigurationName: name,
		Service: somewhere})
	run(t, own)
	if got := live(t, c, validating, name); got.Annotations["cert-manager.io/inject-ca-from"] != "" ||
		got.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("got %+v", got)
	}
}

// Nothing hangs while the API server is away.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r, log := newRegistrar(t, RegistrarOptions{Client: testenv.Client(t, &rest.Config{Host: "https://127.0.0.1:1"}), Hooks: quietFull(),
		Service: somewhere})
	hurry(r)
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
	trying, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(trying) }()
	log.Until(t, "Will retry after delay.", 3)
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r, _ = newRegistrar(t, RegistrarOptions{Client: testenv.Client(t, &rest.Config{Host: "https://127.0.0.1:1"}), Hooks: quietFull(),
		URL: "https://x"})
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
	options := func(hooks []*hook.Hook) RegistrarOptions {
		return RegistrarOptions{Client: client, Hooks: hooks, ConfigurationName: name, Service: somewhere, Report: seen.report}
	}
	first, _ := newRegistrar(t, options(quietFull()))
	for _, k := range first.keepers {
		k.delays = []time.Duration{100 * time.Millisecond}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
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
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	second, log := newRegistrar(t, options(nil))
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
	first, _ := newRegistrar(t, RegistrarOptions{Client: testenv.Client(t, c.Config(t)), Hooks: quietFull(), ConfigurationName: name,
		Service: somewhere})
	if err := run(t, first)(); err != nil {
		t.Fatal(err)
	}
	var seen reports
	user := "reader-" + name
	client := as(t, c, user)
	restrict(t, c, user, "list,watch", name+"-hooks")
	r, log := newRegistrar(t, RegistrarOptions{Client: client, ConfigurationName: name, Service: somewhere, Report: seen.report})
	hurry(r)
	cleared := make(chan struct{})
	go func() { defer close(cleared); r.Clear(t.Context()) }()
	of := validating.name + " " + name + "-hooks false"
	seen.until(t, of, "stays behind: no permission for validatingwebhookconfigurations")
	if !strings.Contains(log.String(), "with failure policy Fail they block requests") {
		t.Errorf("logged is\n%s", log)
	}
	c.Kubectl(t, "patch", "clusterrole", user, "--type=json", `--patch=[{"op": "add", "path": "/rules/0/verbs/-", "value": "update"}]`)
	<-cleared
	seen.until(t, of, "")
	if got := live(t, c, validating, name); got == nil || len(got.Webhooks) > 0 {
		t.Errorf("left is %+v", got)
	}
}
