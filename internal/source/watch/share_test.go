package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// planned is an API server with so many objects. The operator is allowed to watch them in each namespace, or else everywhere.
type planned struct {
	objects  int
	narrowly bool
}

func (p planned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		return respond(201, fmt.Sprintf(`{"status":{"allowed":%t}}`, !p.narrowly || bytes.Contains(body, []byte(`"namespace":"a"`)))), err
	}
	return respond(200, fmt.Sprintf(`{"metadata":{"continue":"x","remainingItemCount":%d},"items":[{}]}`, p.objects-1)), nil
}

// TestPlan shows which streams a binding gets: n narrow ones, or wider ones, whose objects are selected here.
func TestPlan(t *testing.T) {
	few, many := planned{objects: 10}, planned{objects: 4*objectsPerWatch + 1}
	all, names := []string{"a", "b", "c", "d", "e"}, []string{"n0", "n1", "n2", "n3", "n4"}
	for _, test := range []struct {
		name              string
		server            planned
		resource          string
		namespaces, names []string
		want              string
	}{
		{"three are few", few, "things", all[:3], nil, "a, b, c"},
		{"four are not", few, "things", all[:4], nil, "all in [a b c d]"},
		{"nor are four names", few, "things", all[:1], names[:4], "a only [n0 n1 n2 n3] in [a]"},
		{"two names, four namespaces, many objects", many, "things", all[:4], names[:2],
			"all metadata.name=n0, all metadata.name=n1 only [n0 n1] in [a b c d]"},
		{"the same, few objects", few, "things", all[:4], names[:2], "all only [n0 n1] in [a b c d]"},
		{"without permission for more", planned{10, true}, "things", all, nil, "a, b, c, d, e"},
		{"with permission for the one namespace", planned{10, true}, "things", all[:1], names, "a only [n0 n1 n2 n3 n4] in [a]"},
		{"never Secrets", few, "secrets", all, nil, "a, b, c, d, e"},
		{"four are not worth so many objects", many, "things", all[:1], names[:4],
			"a metadata.name=n0, a metadata.name=n1, a metadata.name=n2, a metadata.name=n3"},
		{"five are", many, "things", all[:1], names, "a only [n0 n1 n2 n3 n4] in [a]"},
	} {
		w, err := New(Options{Config: &rest.Config{Host: "http://api.example.com", Transport: test.server, QPS: -1},
			JQ: jq.NewCompiler(jq.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		m := silentMonitor(hook.Kubernetes{Names: test.names, Namespaces: inNamespaces(test.namespaces...)})
		p, err := w.plan(t.Context(), m, kube.Resource{Namespaced: true,
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: test.resource}})
		if err != nil {
			t.Fatal(err)
		}
		var scopes []string
		for _, sc := range p.scopes {
			scopes = append(scopes, strings.TrimSpace(cmp.Or(sc.Namespace, "all")+" "+sc.Fields))
		}
		got := strings.Join(scopes, ", ")
		if p.only != nil {
			got += fmt.Sprint(" only ", slices.Sorted(maps.Keys(p.only)))
		}
		if p.onlyIn != nil {
			got += fmt.Sprint(" in ", slices.Sorted(maps.Keys(p.onlyIn)))
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
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
