package admission

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"k8s.io/apimachinery/pkg/types"
)

// full are hooks with all settings of a binding, and hooks with none.
func full() []*hook.Hook {
	everything := func(name string) hook.Admission {
		return hook.Admission{
			Binding: hook.Binding{Name: name},
			Rules: []hook.Rule{
				{APIGroups: []string{"", "apps"}, APIVersions: []string{"v1"}, Resources: []string{"pods", "deployments/*"},
					Operations: []string{"CREATE", "UPDATE"}, Scope: "Namespaced"},
				{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Operations: []string{"*"}},
			},
			ObjectLabels: &hook.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			NamespaceLabels: &hook.LabelSelector{MatchExpressions: []hook.LabelRequirement{{Key: "k", Operator: "In", Values: []string{"x", "y"}},
				{Key: "l", Operator: "Exists"}}},
			MatchConditions: []hook.MatchCondition{{Name: "not-ours", Expression: "request.userInfo.username != 'admin'"}},
			FailurePolicy:   "Ignore", SideEffects: "NoneOnDryRun", TimeoutSeconds: 4, MatchPolicy: "Exact",
		}
	}
	plain := func(name string) hook.Admission {
		return hook.Admission{Binding: hook.Binding{Name: name}, SideEffects: "None", TimeoutSeconds: 10}
	}
	reinvoked := everything("z.acme.dev")
	reinvoked.ReinvocationPolicy = "IfNeeded"
	return []*hook.Hook{
		{Name: "b.sh", Validating: []hook.Admission{everything("z.acme.dev"), plain("a.acme.dev")}, Mutating: []hook.Admission{reinvoked}},
		{Name: "A.sh", Validating: []hook.Admission{plain("m.acme.dev")}, Mutating: []hook.Admission{plain("m.acme.dev")}},
	}
}

// quietFull are the same, but no request is ever reviewed by them.
func quietFull() []*hook.Hook {
	hooks := full()
	for _, h := range hooks {
		for _, list := range [][]hook.Admission{h.Validating, h.Mutating} {
			for i := range list {
				list[i].NamespaceLabels = &hook.LabelSelector{MatchLabels: map[string]string{"no-namespace": "has-this"}}
				for j := range list[i].Rules {
					list[i].Rules[j].Resources, list[i].Rules[j].Scope = []string{"pods"}, "Namespaced"
				}
			}
		}
	}
	return hooks
}

// complete adds that all hooks are ready, and functions without an effect.
func complete(o RegistrarOptions) RegistrarOptions {
	if o.Ready == nil {
		o.Ready = func(*hook.Hook, hook.Address) bool { return true }
	}
	if o.Stuck == nil {
		o.Stuck = func(*hook.Hook) string { return "" }
	}
	if o.Seen == nil {
		o.Seen = func(string, []string, bool) {}
	}
	if o.Bundle == nil {
		o.Bundle = func() []byte { return nil }
	}
	if o.Report == nil {
		o.Report = func(hook.Kind, []string, string, error) {}
	}
	return o
}

var svc = types.NamespacedName{Namespace: "ns", Name: "svc"}

func newRegistrar(t *testing.T, o RegistrarOptions) (*Registrar, *logText) {
	t.Helper()
	log := &logText{}
	o.Log = log.logger(t)
	if o.ConfigurationName == "" {
		o.ConfigurationName = "example"
	}
	return NewRegistrar(complete(o)), log
}

// The objects equal testdata/configurations.json.
func TestConfigurations(t *testing.T) {
	r, _ := newRegistrar(t, RegistrarOptions{Hooks: full(), DefaultFailurePolicy: "Ignore", Target: keep.Target{Service: svc}})
	var got []*configuration
	for _, k := range r.keepers {
		k.begin(nil)
		got = append(got, k.written(nil, k.desired(nil, []byte("CA"))))
	}
	byURL, _ := newRegistrar(t, RegistrarOptions{Hooks: full()[1:],
		Target: keep.Target{URL: "https://127.0.0.1:9680", CertManager: "ns/cert"}})
	got = append(got, byURL.keepers[0].desired(nil, nil))
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/configurations.json", string(text)+"\n")
}

func TestDecide(t *testing.T) {
	const now, old, newer = 3, 2, 4
	mine, _ := newRegistrar(t, RegistrarOptions{Hooks: full(), Target: keep.Target{Service: svc}})
	k := mine.keepers[0]
	k.number, k.raised = now, true
	without, _ := newRegistrar(t, RegistrarOptions{Target: keep.Target{Service: svc}})
	none := without.keepers[0]
	none.number = now
	starting, _ := newRegistrar(t, RegistrarOptions{Hooks: full(),
		Target: keep.Target{Service: svc, Ready: func(*hook.Hook, hook.Address) bool { return false }}})
	awaiting := starting.keepers[0]
	awaiting.number = now
	elsewhere, _ := newRegistrar(t, RegistrarOptions{Hooks: full(),
		Target: keep.Target{Service: types.NamespacedName{Name: "svc", Namespace: "other"}}})
	as := func(k *keeper, number int, change func(*configuration)) *configuration {
		c := k.written(nil, k.desired(nil, nil))
		c.Annotations[startedAnnotation] = strconv.Itoa(number)
		if change != nil {
			change(c)
		}
		return c
	}
	edited := func(c *configuration) { c.Webhooks = c.Webhooks[1:] }
	for _, row := range []struct {
		name   string
		keeper *keeper
		live   *configuration
		want   action
	}{
		{"there is none", k, nil, register},
		{"there is none, and should not be", none, nil, leave},
		{"it is as it should be", k, as(k, now, nil), leave},
		{"it is as it should be, an older one wrote it", k, as(k, old, nil), leave},
		{"it is as it should be, a newer one wrote it", k, as(k, newer, nil), leave},
		{"others put something into the metadata", k, as(k, now, func(c *configuration) { c.Labels["x"], c.Annotations["y"] = "1", "2" }),
			leave},
		{"edited", k, as(k, now, edited), register},
		{"edited, an older one wrote it", k, as(k, old, edited), register},
		{"a newer one wants it different", k, as(k, newer, edited), register},
		{"a chart created it", k, as(k, now, func(c *configuration) { c.Labels = map[string]string{managedByLabel: "Helm"} }), leave},
		{"a chart created it, and no operator has written it", k, as(k, now, func(c *configuration) {
			c.Webhooks, c.Labels, c.Annotations = nil, map[string]string{managedByLabel: "Helm"}, nil
		}), register},
		{"the original wrote it", k, as(k, now, func(c *configuration) { c.Labels, c.Annotations = nil, nil }), leave},
		{"all is gone but the object", k, as(k, now, func(c *configuration) { c.Webhooks, c.Labels, c.Annotations = nil, nil, nil }),
			register},
		{"another operator's", k, as(elsewhere.keepers[0], old, nil), register},
		{"no bindings any more", none, as(k, old, nil), remove},
		{"no bindings any more, a chart created it", none,
			as(k, old, func(c *configuration) { c.Labels = map[string]string{managedByLabel: "Helm"} }), empty},
		{"no bindings any more, a chart created it, and it is empty", none,
			as(k, old, func(c *configuration) { c.Webhooks, c.Labels = nil, map[string]string{managedByLabel: "Helm"} }), leave},
		{"no bindings any more, the original wrote it", none, as(k, old, func(c *configuration) { c.Labels, c.Annotations = nil, nil }),
			empty},
		{"no hook is ready yet, the webhooks are those of hooks that are gone, and had their time", awaiting, as(k, old, func(c *configuration) {
			c.Webhooks = c.Webhooks[:1]
			c.Webhooks[0].Name = "gone.acme.dev"
			*c.Webhooks[0].ClientConfig.Service.Path = root + "validating/gone/x"
		}), empty},
		{"no bindings here, but a newer one has some", none, as(k, newer, nil), leave},
		{"no bindings here, but another operator has some", none, as(elsewhere.keepers[0], old, nil), leave},
		{"no bindings here, and a part of it is another operator's", none,
			as(k, old, func(c *configuration) { c.Webhooks[0].ClientConfig.Service.Namespace = "other" }), leave},
	} {
		if got := row.keeper.decide(row.live, row.keeper.desired(row.live, nil)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
}

// Excluded namespaces are added to the selector of a binding, unless it selects namespaces by name itself.
func TestExcludedNamespaces(t *testing.T) {
	const byName = "kubernetes.io/metadata.name"
	bindings := []hook.Admission{
		{Binding: hook.Binding{Name: "all"}},
		{Binding: hook.Binding{Name: "labelled"}, NamespaceLabels: &hook.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		{Binding: hook.Binding{Name: "named"}, NamespaceLabels: &hook.LabelSelector{MatchLabels: map[string]string{byName: "kube-system"}}},
		{Binding: hook.Binding{Name: "any"},
			NamespaceLabels: &hook.LabelSelector{MatchExpressions: []hook.LabelRequirement{{Key: byName, Operator: "Exists"}}}},
	}
	r, _ := newRegistrar(t, RegistrarOptions{Hooks: []*hook.Hook{{Name: "a", Validating: bindings}},
		ExcludeNamespaces: []string{"kube-system", "ns"}, Target: keep.Target{URL: "https://x"}})
	var got []string
	for _, w := range r.keepers[0].desired(nil, nil).Webhooks {
		got = append(got, w.Name+": "+metav1.FormatLabelSelector(w.NamespaceSelector))
	}
	want := []string{
		"all: kubernetes.io/metadata.name notin (kube-system,ns)", "labelled: a=b,kubernetes.io/metadata.name notin (kube-system,ns)",
		"named: kubernetes.io/metadata.name=kube-system", "any: kubernetes.io/metadata.name",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Excluded clients are a condition of each binding, after its own.
func TestExcludedClients(t *testing.T) {
	own := []hook.MatchCondition{{Name: "own", Expression: "true"}}
	for want, o := range map[string]RegistrarOptions{
		"": {},
		`!(request.userInfo.username in ["alice", "o\"bob"])`: {ExcludeUsers: []string{"alice", `o"bob`}},
		`!(request.userInfo.username in ["alice"]) && ` +
			`!(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in ["system:nodes"]))`: {
			ExcludeUsers: []string{"alice"}, ExcludeGroups: []string{"system:nodes"}},
	} {
		o.URL = "https://x"
		o.Hooks = []*hook.Hook{{Name: "a", Mutating: []hook.Admission{{Binding: hook.Binding{Name: "a"}, MatchConditions: own}}}}
		r, _ := newRegistrar(t, o)
		got := r.keepers[1].desired(nil, nil).Webhooks[0].MatchConditions
		if got[0].Name != "own" || want == "" && len(got) != 1 || want != "" && (len(got) != 2 || got[1].Expression != want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An update that hands the certificates to cert-manager is not undone by a replica of before.
func TestAnotherCertManager(t *testing.T) {
	o := RegistrarOptions{Hooks: full(), Target: keep.Target{Service: svc}}
	older, _ := newRegistrar(t, o)
	o.CertManager = "ns/cert"
	newer, _ := newRegistrar(t, o)
	for i, k := range newer.keepers {
		live := k.written(nil, k.desired(nil, nil))
		if !older.keepers[i].writtenLater(live) || older.keepers[i].pause(register, live) <= 0 {
			t.Errorf("%s is overwritten", k.Subject())
		}
	}
}
