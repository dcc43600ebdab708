package apply

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// The objects that a run changes have one name each, whatever namespace a hook writes for an object that has none.
func TestObjectsOfATurn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"nodes","kind":"Node","namespaced":false,"verbs":["get"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get"]}]}`))
	}))
	defer server.Close()
	e, err := New(Options{Client: &rest.Config{Host: server.URL}, Namespace: "own", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	node := func(namespace string) effect.Patch {
		return effect.Patch{APIVersion: "v1", Kind: "Node", Namespace: namespace, Name: "a"}
	}
	set := effect.Patch{Set: &effect.ObjectSet{Name: "s", Objects: []effect.Member{
		{APIVersion: "v1", Kind: "Node", Name: "a"}, {APIVersion: "v1", Kind: "Pod", Name: "a"},
		{APIVersion: "example.com/v1", Kind: "Thing", Name: "a"},
	}}}
	patches := []effect.Patch{node(""), node("x"), node("y"), {APIVersion: "v1", Kind: "Pod", Namespace: "x", Name: "a"}, set}
	got := slices.Compact(slices.Sorted(slices.Values(objects(patches, e.o.Namespace, e.unscoped(context.Background(), patches)))))
	if want := []string{"default/a", "own/a", "set s of ", "x/a"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}
