package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestPlan shows how many streams a binding gets: n narrow ones, or a wide one.
func TestPlan(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	all := someNamespaces(t, c, 5)
	one := all[0]
	few, many := one+".few.example.com", one+".many.example.com"
	for _, group := range []string{few, many} {
		crd(t, c, group, "Thing", "Namespaced", "v1")
	}
	for _, ns := range all {
		custom(t, c, few+"/v1", "Thing", ns, "a")
		custom(t, c, few+"/v1", "Thing", ns, "other")
	}
	// So many objects that looking at all of them costs more than some more watches.
	var list strings.Builder
	for i := range 4*objectsPerWatch + 1 {
		fmt.Fprintf(&list, "---\n{apiVersion: %s/v1, kind: Thing, metadata: {name: n%d, namespace: %s}}\n", many, i, one)
	}
	c.KubectlInput(t, list.String(), "create", "-f", "-")
	// alice may do in each of the namespaces what the administrator may do everywhere.
	for _, ns := range all {
		c.KubectlInput(t, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: watch, namespace: %[1]s},
  rules: [{apiGroups: ["", %[2]q, %[3]q], resources: [things, secrets], verbs: [get, list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: watch, namespace: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch}, subjects: [{kind: User, name: alice}]}
`, ns, few, many), "apply", "-f", "-")
		c.UntilAllowed(t, "alice", ns, "list", "things."+few)
	}
	admin, alice := c.Kubeconfig, c.UserKubeconfig
	names := []string{"a", "n0", "n1", "n2", "n3"}
	for _, test := range []struct {
		name       string
		as         string
		apiVersion string
		kind       string
		namespaces []string
		names      []string
		labels     string
		streams    int
		sees       []string
	}{
		{"three are few", admin, few + "/v1", "Thing", all[:3], nil, "", 3, nil},
		{"four are not", admin, few + "/v1", "Thing", all[:4], nil, "", 1, nil},
		{"nor are four names", admin, few + "/v1", "Thing", []string{one}, names[:4], "", 1, []string{one + "/a"}},
		{"two names, four namespaces, many objects", admin, many + "/v1", "Thing", all[:4], []string{"n0", "n7"}, "", 2,
			[]string{one + "/n0", one + "/n7"}},
		{"the same, few objects", admin, few + "/v1", "Thing", all[:4], []string{"a", "b"}, "", 1,
			[]string{all[0] + "/a", all[1] + "/a", all[2] + "/a", all[3] + "/a"}},
		{"without permission for more", alice, few + "/v1", "Thing", all, nil, "", 5, nil},
		{"with permission for the one namespace", alice, few + "/v1", "Thing", []string{one}, names, "", 1, []string{one + "/a"}},
		{"never Secrets", admin, "v1", "Secret", all, nil, "", 5, nil},
		{"four are not worth so many objects", admin, many + "/v1", "Thing", []string{one}, names[1:], "", 4,
			[]string{one + "/n0", one + "/n1", one + "/n2", one + "/n3"}},
		{"five are", admin, many + "/v1", "Thing", []string{one}, names, "", 1, []string{one + "/n0", one + "/n1", one + "/n2", one + "/n3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, test.as)
			h := bindings("plan", hook.Kubernetes{
				APIVersion: test.apiVersion, Kind: test.kind, Labels: test.labels, Names: test.names, Namespaces: inNamespaces(test.namespaces...),
			})
			o.unlocked(h)
			if n := o.Streams(); n != test.streams {
				t.Errorf("%d streams, want %d", n, test.streams)
			}
			if test.sees != nil {
				o.sees(h, 0, test.sees...)
			}
			if test.kind != "Thing" || len(test.names) > 0 || test.labels != "" {
				return
			}
			var want []string
			for _, ns := range test.namespaces {
				want = append(want, ns+"/a", ns+"/other")
			}
			o.sees(h, 0, want...)
		})
	}
}

func TestNarrow(t *testing.T) {
	base := pods
	base.Labels, base.Fields = "a=b", "status.phase=Running"
	for _, test := range []struct {
		namespaces, names []string
		want              []string
	}{
		{nil, nil, []string{"/api/v1/pods status.phase=Running"}},
		{[]string{"x", "y"}, nil, []string{"/api/v1/namespaces/x/pods status.phase=Running", "/api/v1/namespaces/y/pods status.phase=Running"}},
		{nil, []string{"a", "b"},
			[]string{"/api/v1/pods status.phase=Running,metadata.name=a", "/api/v1/pods status.phase=Running,metadata.name=b"}},
		{[]string{"x"}, []string{"a,b"}, []string{`/api/v1/namespaces/x/pods status.phase=Running,metadata.name=a\,b`}},
	} {
		var got []string
		for _, sc := range narrow(base, test.namespaces, test.names) {
			got = append(got, sc.Path()+" "+sc.Fields)
			if sc.Labels != base.Labels {
				t.Errorf("labels are %q", sc.Labels)
			}
		}
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%v × %v: got %q, want %q", test.namespaces, test.names, got, test.want)
		}
	}
}

// Streams is the number of lists and watches in use.
func (w *Watcher) Streams() int {
	return w.streams.Len()
}
