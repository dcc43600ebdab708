package watch

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// An access review that fails is repeated; it is no denial.
func TestFailedAccessReviewIsRepeated(t *testing.T) {
	s := newServer(1)
	reviews, counts := 0, 0
	s.refuse = func(path string) *http.Response {
		switch {
		case !strings.Contains(path, "selfsubjectaccessreviews"):
		case reviews < 3:
			reviews++
			return respond([]int{500, 503, 504}[reviews-1], `{"kind":"Status","apiVersion":"v1","status":"Failure"}`)
		default:
			return respond(201, `{"status":{"allowed":true}}`)
		}
		if strings.HasSuffix(path, "/configmaps") && reviews == 3 && counts < 1 {
			counts++
			return respond(500, `{"kind":"Status","apiVersion":"v1","status":"Failure"}`)
		}
		return nil
	}
	follow(t, s, func(w *Watcher, seen *witness) {
		h := bindings("h", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"),
			Names: []string{"a", "b", "c", "d", "first"}})
		troubles := 0
		if err := w.Enable(seen.t.Context(), h, func(_ int, err error) {
			if err != nil {
				troubles++
			}
		}); err != nil {
			t.Fatal(err)
		}
		if n := w.Streams(); n != 1 || troubles == 0 {
			t.Errorf("%d streams after %d troubles", n, troubles)
		}
		if reviews != 3 || counts != 1 {
			t.Errorf("%d reviews and %d counts failed", reviews, counts)
		}
		if troubles := w.Troubles(h, 0); len(troubles) > 0 {
			t.Errorf("reported afterwards: %q", troubles)
		}
	})
}

// A watch that is wider than the binding falls back to narrow ones when it is forbidden. The hook receives nothing of it.
func TestForbiddenWideWatchFallsBack(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	all := someNamespaces(t, c, 5)
	group := all[0] + ".example.com"
	crd(t, c, group, "Thing", "Namespaced", "v1")
	user := "user-" + all[0]
	for _, ns := range all {
		custom(t, c, group+"/v1", "Thing", ns, "a")
		allow(t, c, user, ns, group, "things", "get", "list", "watch")
	}
	allow(t, c, user, "", group, "things", "get", "list", "watch")
	c.UntilAllowed(t, user, "default", "list", "things."+group)
	proxy, kubeconfig := testenv.NewProxy(t, c, c.Kubeconfig)
	o := observe(t, kubeconfig, as(user))
	h := o.unlocked(bindings("wide", hook.Kubernetes{APIVersion: group + "/v1", Kind: "Thing", Namespaces: inNamespaces(all...)}))
	if n := o.Streams(); n != 1 {
		t.Fatalf("%d streams", n)
	}
	proxy.Cut()
	name := fmt.Sprintf("%s-things.%s", user, group)
	c.Kubectl(t, "delete", "clusterrolebinding/"+name)
	c.UntilDenied(t, user, "default", "list", "things."+group)
	c.Kubectl(t, "-n", all[1], "delete", "thing."+group, "a")
	proxy.Restore()
	o.expect("Deleted " + all[1] + "/a") // and nothing else
	for _, ns := range all {
		custom(t, c, group+"/v1", "Thing", ns, "b")
		o.expect("Added " + ns + "/b")
	}
	if n := o.Streams(); n != len(all) {
		t.Errorf("%d streams", n)
	}
	if log := o.log(); strings.Contains(log, "ClusterRole") || !strings.Contains(log, "narrower ones replace it") {
		t.Errorf("the log is\n%s", log)
	}
	if troubles := o.Troubles(h, 0); len(troubles) > 0 {
		t.Errorf("reported afterwards: %q", troubles)
	}
}

// A binding without apiVersion follows its kind to another version.
func TestVersionOfKindChanges(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	group := ns + ".example.com"
	kind := "Moving" + strings.ReplaceAll(ns, "-", "")
	crd(t, c, group, kind, "Namespaced", "v1")
	custom(t, c, group+"/v1", kind, ns, "a")
	o := observe(t, c.Kubeconfig)
	h := o.unlocked(bindings("any",
		hook.Kubernetes{Kind: kind, Namespaces: inNamespaces(ns)},
		hook.Kubernetes{Kind: kind, Namespaces: hook.Namespaces{ByLabels: true, Labels: "kubernetes.io/metadata.name=" + ns}},
	))
	schema := `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`
	c.Kubectl(t, "patch", "crd", strings.ToLower(kind)+"s."+group, "--type=merge", "-p",
		`{"spec":{"versions":[{"name":"v1","served":false,"storage":false,`+schema+`},{"name":"v2","served":true,"storage":true,`+schema+`}]}}`)
	custom(t, c, group+"/v2", kind, ns, "b")
	o.expectAnyOrder("Added "+ns+"/b", "Added "+ns+"/b")
	for i := range h.Kubernetes {
		o.sees(h, i, ns+"/a", ns+"/b")
		if troubles := o.Troubles(h, i); len(troubles) > 0 {
			t.Errorf("binding %d reports %q", i, troubles)
		}
	}
}

// A namespace that is named and does not exist is worth one warning.
func TestMissingNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	o := observe(t, c.Kubeconfig)
	h := bindings("h", hook.Kubernetes{Kind: "Secret", Namespaces: inNamespaces(ns, "nosuch-"+ns)})
	o.enable(h)
	o.says(`msg="The namespace does not exist (yet): check namespace.nameSelector.matchNames of the binding" hook=h binding=binding-0 ` +
		`namespace=nosuch-` + ns)
	if strings.Contains(o.log(), "namespace="+ns) {
		t.Errorf("the log warns of a namespace that exists:\n%s", o.log())
	}
	if absent := o.State(h, 0).Absent; !slices.Equal(absent, []string{"nosuch-" + ns}) {
		t.Errorf("absent are %q", absent)
	}
}
