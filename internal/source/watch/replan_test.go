package watch

import (
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
