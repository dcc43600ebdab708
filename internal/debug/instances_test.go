package debug

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Another operator with the same instance name is a problem in status, in why of hooks with a finalizer, and in the list of finalizers. Its
// sets are not those of a hook that is gone.
func TestAnotherOperatorOfTheInstance(t *testing.T) {
	const named = `the instance name "shop.operator": another operator uses it: process pod/2`
	f := &fake{
		hooks: []*hook.Hook{{Name: "h", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "cm"}, Finalizer: "example.com/f"}}},
			{Name: "plain"}},
		others: []string{"process pod/2"}, sets: []applyset.Set{{ID: "1", Name: "web", Hook: "elsewhere", Members: -1}},
		presences: []finalizer.Presence{
			{Heartbeat: finalizer.Heartbeat{Operator: "process pod/1", Instance: "shop.operator", Renewed: time.Unix(0, 0).UTC()}, Self: true},
			{Heartbeat: finalizer.Heartbeat{Operator: "process pod/2", Instance: "shop.operator", Renewed: time.Unix(60, 0).UTC()}, Alive: true},
			{Heartbeat: finalizer.Heartbeat{Operator: "process pod/3", Instance: "other", Renewed: time.Unix(60, 0).UTC()}},
		},
	}
	api := operate(f).api()
	for path, want := range map[string]string{
		"/status.text":     "- " + named + ": set --instance for one of them, or --leader-election or --shards if they are replicas\n",
		"/hook/h/why.text": named,
		"/finalizers/list.text": "operator process pod/2, installation shop.operator (running): heartbeat of 1970-01-01T00:01:00Z\noperator " +
			"process pod/3, installation other: heartbeat",
		"/sets/list.text": "1  set \"web\" of hook \"elsewhere\"\n",
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
