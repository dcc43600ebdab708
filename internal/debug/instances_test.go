package debug

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Another operator with the same instance name is a problem in status and in why of hooks with a finalizer. Its
// sets are not those of a hook that is gone.
func TestAnotherOperatorOfTheInstance(t *testing.T) {
	const named = `the instance name "shop.operator": another operator uses it: process pod/2`
	f := &fake{
		hooks: []*hook.Hook{{Name: "h", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "cm"}, Finalizer: "example.com/f"}}},
			{Name: "plain"}},
		others: []string{"process pod/2"}, sets: []applyset.Set{{ID: "1", Name: "web", Hook: "elsewhere", Members: -1}},
	}
	api := operate(f).api()
	for path, want := range map[string]string{
		"/status.text":     "- " + named + ": set --instance for one of them, or --leader-election or --shards if they are replicas\n",
		"/hook/h/why.text": named,
		"/sets/list.json":  `"hook":"elsewhere","hookAbsent":false`,
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is %d\n%s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", "/hook/plain/why.text", nil))
	if strings.Contains(w.Body.String(), named) {
		t.Errorf("a hook without a finalizer:\n%s", w.Body)
	}
}
