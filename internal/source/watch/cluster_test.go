package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// observer is a Watcher that runs, and a Sink that tests wait on.
type observer struct {
	*Watcher
	t      *testing.T
	ctx    context.Context
	events chan event.Event
	// lines are the records of the log.
	lines chan string

	enabling sync.WaitGroup

	mu     sync.Mutex // guards what follows
	logged bytes.Buffer
}

var _ Sink = (*observer)(nil)

func (o *observer) Event(ev event.Event)               { o.events <- ev }
func (o *observer) Keep(b []byte) event.Payload        { return event.Memory(b) }
func (o *observer) Gone(*hook.Hook, int, event.Object) {}
func (o *observer) Objects(*hook.Hook, int, int)       {}

// Write takes the log.
func (o *observer) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.lines <- string(line):
	default: // no test waits for so many
	}
	return o.logged.Write(line)
}

// says waits for a line in the log.
func (o *observer) says(text string) {
	o.t.Helper()
	for !strings.Contains(test.Receive(o.t, o.lines, "line in the log with "+text), text) {
	}
}

func (o *observer) log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logged.String()
}

// as makes a Watcher impersonate a user without permissions of its own.
func as(user string) func(*rest.Config) {
	return func(config *rest.Config) { config.Impersonate.UserName = user }
}

// observe returns a running Watcher that ends with the test.
func observe(t *testing.T, kubeconfig string, edits ...func(*rest.Config)) *observer {
	t.Helper()
	config := testenv.Config(t, kubeconfig)
	for _, edit := range edits {
		edit(config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{
		t: t, ctx: ctx, events: make(chan event.Event, 100_000), lines: make(chan string, 10_000),
	}
	var err error
	o.Watcher, err = New(Options{
		Config: config, JQ: jq.NewCompiler(jq.Options{}), Sink: o, KeepManagedFields: true,
		Log: slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		o.enabling.Wait()
		if t.Failed() {
			t.Logf("the log of the watcher:\n%s", o.log())
		}
	})
	return o
}

// trouble is a call of the function that receives the reason why a binding cannot be enabled.
type trouble struct {
	index int
	text  string
}

// begin enables a hook, and returns channels for its troubles and for the end of Enable.
func (o *observer) begin(h *hook.Hook) (stuck <-chan trouble, done <-chan error) {
	troubles, result := make(chan trouble, 1000), make(chan error, 1)
	o.enabling.Go(func() {
		result <- o.Enable(o.ctx, h, func(index int, err error) {
			if err != nil {
				troubles <- trouble{index, err.Error()}
			}
		})
	})
	return troubles, result
}

// enable enables hooks that can be enabled.
func (o *observer) enable(hooks ...*hook.Hook) {
	o.t.Helper()
	for _, h := range hooks {
		stuck, done := o.begin(h)
		select {
		case tr := <-stuck:
			o.t.Fatalf("binding %d of hook %q is stuck: %s", tr.index, h.Name, tr.text)
		case err := <-done:
			if err != nil {
				o.t.Fatal(err)
			}
		case <-time.After(test.Patience):
			o.t.Fatalf("hook %q is not enabled within %s", h.Name, test.Patience)
		}
	}
}

// unlocked enables a hook and unlocks its bindings.
func (o *observer) unlocked(h *hook.Hook) *hook.Hook {
	o.t.Helper()
	o.enable(h)
	for i := range h.Kubernetes {
		o.Synchronize(h, i)
		o.Unlock(h, i)
	}
	return h
}

// next returns the next event: "Modified NAMESPACE/NAME FILTERED".
func (o *observer) next() string {
	o.t.Helper()
	ev := test.Receive(o.t, o.events, "event")
	return ev.Watch.String() + " " + describe(o.t, ev.Object)
}

// expect waits for these events, in this order.
func (o *observer) expect(want ...string) {
	o.t.Helper()
	for i, w := range want {
		if got := o.next(); got != w {
			o.t.Fatalf("event %d is %q, want %q", i+1, got, w)
		}
	}
}

// expectAnyOrder waits for these events, which come from several streams.
func (o *observer) expectAnyOrder(want ...string) {
	o.t.Helper()
	var got []string
	for range want {
		got = append(got, o.next())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		o.t.Fatalf("got events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sees checks what a binding sees.
func (o *observer) sees(h *hook.Hook, index int, want ...string) {
	o.t.Helper()
	if got := contents(o.t, o.Snapshot(h, index)); !slices.Equal(got, want) {
		o.t.Errorf("binding %d of hook %q sees\n%s\nwant\n%s", index, h.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func contents(t *testing.T, s event.Snapshot) []string {
	t.Helper()
	var all []string
	s.Each(func(o event.Object) bool {
		all = append(all, describe(t, o))
		return true
	})
	return all
}

// describe formats an object as "NAMESPACE/NAME FILTERED", without empty parts.
func describe(t *testing.T, o event.Object) string {
	t.Helper()
	text := o.Name
	if o.Namespace != "" {
		text = o.Namespace + "/" + o.Name
	}
	if o.Filtered != nil {
		filtered, err := o.Filtered.Bytes()
		if err != nil {
			t.Error(err)
		}
		text += " " + string(filtered)
	}
	return text
}

// bindings returns a hook. Each binding wants all events and keeps full objects.
func bindings(name string, all ...hook.Kubernetes) *hook.Hook {
	for i := range all {
		b := &all[i]
		b.Added, b.Modified, b.Deleted, b.KeepFullObjects = true, true, true, true
		b.Name = fmt.Sprintf("binding-%d", i)
	}
	return &hook.Hook{Name: name, Kubernetes: all}
}

// secret makes a Secret with the label v=VALUE. No other test makes Secrets in the namespace.
func secret(t *testing.T, c *testenv.Cluster, namespace, name, value string) {
	t.Helper()
	c.KubectlInput(t, fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"labels":{"v":%q}}}`, name,
		namespace, value), "apply", "-f", "-")
}

// someNamespaces makes n namespaces, in the order of snapshots.
func someNamespaces(t *testing.T, c *testenv.Cluster, n int) []string {
	t.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = c.Namespace(t)
	}
	slices.Sort(all)
	return all
}

// inNamespaces is a restriction to some namespaces.
func inNamespaces(names ...string) hook.Namespaces {
	return hook.Namespaces{Names: slices.Sorted(slices.Values(names))}
}

// crd makes a custom resource, served in the given versions. Its plural is the lower case of kind with an s, its
// singular begins with one-, its short name with sh-.
func crd(t *testing.T, c *testenv.Cluster, group, kind, scope string, versions ...string) {
	t.Helper()
	lower := strings.ToLower(kind)
	var served []string
	for i, version := range versions {
		served = append(served,
			fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object",`+
				`"x-kubernetes-preserve-unknown-fields":true}}}`, version, i == 0))
	}
	name := lower + "s." + group
	c.KubectlInput(t,
		fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},"spec":{"group":%q,`+
			`"scope":%q,"names":{"kind":%q,"plural":%q,"singular":%q,"shortNames":[%q]},"versions":[%s]}}`,
			name, group, scope, kind, lower+"s", "one-"+lower, "sh-"+lower, strings.Join(served, ",")), "create", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", "crd", name, "--ignore-not-found", "--wait=false") })
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", name)
}

// custom makes an object of a custom resource.
func custom(t *testing.T, c *testenv.Cluster, apiVersion, kind, namespace, name string) {
	t.Helper()
	c.KubectlInput(t, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q}}`, apiVersion, kind, name, namespace),
		"apply", "-f", "-")
}
