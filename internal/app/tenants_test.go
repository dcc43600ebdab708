package app

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
)

// senders records who sends which requests to an API server in memory.
type senders struct {
	server *memory.Server

	mu   sync.Mutex
	sent map[string][]string
}

func (s *senders) config(name string) *rest.Config {
	return &rest.Config{Host: "http://memory", QPS: -1, Transport: sender{s, name}}
}

func (s *senders) client(t *testing.T, name string) rest.Interface {
	t.Helper()
	client, err := kube.NewClient(s.config(name))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type sender struct {
	*senders
	name string
}

var eventName = regexp.MustCompile(`(events/a)\.[0-9a-f]+`)

func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	if path := req.URL.Path; strings.Contains(path, "/namespaces/") {
		s.mu.Lock()
		line := req.Method + " " + eventName.ReplaceAllString(path[strings.Index(path, "/namespaces/")+len("/namespaces/"):], "$1")
		if !slices.Contains(s.sent[s.name], line) {
			s.sent[s.name] = append(s.sent[s.name], line)
		}
		s.mu.Unlock()
	}
	return s.server.RoundTrip(req)
}

// Everything that a hook of a tenant changes is sent with its account: only records of sets are written by the operator.
func TestTenantWrites(t *testing.T) {
	s := &senders{server: memory.New(memory.Options{Kinds: memory.BuiltIns()}), sent: map[string][]string{}}
	for _, manifest := range []string{`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "shop"}}`,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "shop"}, "spec": {"containers": [{"name": "c"}]}}`} {
		if _, err := s.server.Add([]byte(manifest)); err != nil {
			t.Fatal(err)
		}
	}
	shop := s.client(t, "tenant")
	effects, err := apply.New(apply.Options{
		Instance: "i", Namespace: "operator", Client: s.config("operator"), Filters: jq.NewCompiler(jq.Options{}),
		Log: slog.New(slog.DiscardHandler),
		Account: func(h *hook.Hook) kube.Account {
			if h.Tenant == nil {
				return kube.Account{}
			}
			return kube.Account{Client: shop, Name: "shop/hooks"}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	hooks := map[string]*hook.Hook{"operator": {Name: "a"}, "tenant": {Name: "shop/a", Tenant: &hook.Tenant{Name: "shop"}}}
	const all = `
{operation: Create, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: shop}}}
---
{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: shop, labels: {a: b}}}}
---
{operation: Apply, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, namespace: shop, labels: {c: d}}}}
---
{operation: MergePatch, apiVersion: v1, kind: ConfigMap, namespace: shop, name: NAME, mergePatch: {data: {a: b}}}
---
{operation: JQPatch, apiVersion: v1, kind: ConfigMap, namespace: shop, name: NAME, jqFilter: '.data.b = "c"'}
---
{operation: Condition, apiVersion: v1, kind: Pod, namespace: shop, name: pod, type: NAME, status: "True", reason: Done}
---
{operation: Event, regarding: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: a}, type: Normal, reason: Done, action: Do, note: NAME}
---
{operation: Delete, apiVersion: v1, kind: ConfigMap, namespace: shop, name: NAME}
---
operation: Sync
set: NAME
owner: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: owner}
objects: [{apiVersion: v1, kind: Secret, metadata: {name: member, namespace: shop}}]
`
	const prune = `
operation: Sync
set: NAME
owner: {apiVersion: v1, kind: ConfigMap, namespace: shop, name: owner}
objects: []
allowEmpty: true
`
	for _, name := range []string{"tenant", "operator"} {
		clear(s.sent)
		for _, operations := range []string{all, prune} {
			out := run.Outputs{Patch: []byte(strings.ReplaceAll(operations, "NAME", name))}
			if _, err := effects.Apply(t.Context(), slog.New(slog.DiscardHandler), hooks[name], out, nil, nil); err != nil {
				t.Fatal(name, err)
			}
		}
		effects.Flush(context.Background())
		others := slices.Collect(func(yield func(string) bool) {
			for by, lines := range s.sent {
				for _, line := range lines {
					if by != name && !strings.Contains(line, "/configmaps/shell-operator-") && line != "POST operator/configmaps" &&
						!yield(by+" "+line) {
						return
					}
				}
			}
		})
		if len(others) > 0 {
			t.Errorf("for %s: %q", name, others)
		}
		for _, want := range []string{"POST shop/configmaps", "PATCH shop/configmaps/" + name, "DELETE shop/configmaps/" + name,
			"PATCH shop/pods/pod/status", "POST shop/events", "PATCH shop/secrets/member", "DELETE shop/secrets/member",
			"GET shop/configmaps/owner"} {
			if !slices.Contains(s.sent[name], want) {
				t.Errorf("%s has not sent %s, but %q", name, want, s.sent[name])
			}
		}
		if lines := s.sent["tenant"]; name == "tenant" && slices.ContainsFunc(lines, func(l string) bool {
			return strings.Contains(l, " operator/")
		}) {
			t.Errorf("the tenant writes records: %q", lines)
		}
	}
}

// Limits that come late are a trouble until a process has them from its start, and logged once.
func TestLateLimits(t *testing.T) {
	var logged strings.Builder
	var op operator
	op.log = slog.New(slog.NewTextHandler(&logged, nil))
	plain := &hook.Hook{Name: "plain.sh"}
	hooks := []*hook.Hook{plain, {Name: "bank/a.sh", Tenant: &hook.Tenant{Name: "bank"}}}
	for _, late := range []error{nil, syscall.EPERM, syscall.EPERM, nil} {
		op.limited(late)
		var problems []string
		for _, trouble := range op.lateLimits.troubles(hooks) {
			problems = append(problems, trouble.String())
		}
		text := strings.Join(problems, "|")
		if (text != "") != (late != nil) ||
			late != nil && !(strings.Contains(text, "operation not permitted") && strings.Contains(text, "ptrace_scope")) {
			t.Errorf("after %v the trouble is %q", late, text)
		}
		if all := op.lateLimits.troubles([]*hook.Hook{plain}); len(all) > 0 {
			t.Errorf("without a hook of a tenant there is %v", all)
		}
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 1 {
		t.Errorf("%d records:\n%s", n, logged.String())
	}
}
