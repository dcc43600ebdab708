package debug

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// The configuration is shown in the words in which it is written, for every kind of binding.
func TestConfigOfAllKinds(t *testing.T) {
	rules := []hook.Rule{{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
		Operations: []string{"CREATE"}, Scope: "*"}}
	admission := []hook.Admission{{Binding: hook.Binding{Name: "review"}, Rules: rules, TimeoutSeconds: 10}}
	limit := 2 * time.Second
	h := &hook.Hook{
		Name: "h", Path: "/h", Validating: admission, Mutating: admission,
		Conversions: []hook.Conversion{{Binding: hook.Binding{Name: "convert"}, CRDName: "things.example.com",
			Steps: []hook.ConversionStep{{From: "v1", To: "v2"}}}},
		HTTP: []hook.HTTP{{Binding: hook.Binding{Name: "get"}, Method: "GET", Path: "/things", Timeout: &limit,
			Allow: &hook.Allow{Groups: []string{"ops"}}}},
	}
	got, err := json.Marshal(configOf(h, func(string) time.Time { return time.Time{} }))
	if err != nil {
		t.Fatal(err)
	}
	const review = `[{"name":"review","rules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"],` +
		`"operations":["CREATE"],"scope":"*"}],"timeoutSeconds":10}]`
	want := `{"hook":"h","path":"/h","configVersion":"v1","kubernetesValidating":` + review + `,"kubernetesMutating":` + review +
		`,"kubernetesCustomResourceConversion":[{"name":"convert","crdName":"things.example.com","conversions":[{"fromVersion":"v1",` +
		`"toVersion":"v2"}]}]` +
		`,"http":[{"name":"get","method":"GET","path":"/things","timeout":"2s","allow":{"groups":["ops"]}}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Each name has an address of its own, also if it looks like the escaped form of another one. A name that is not escaped is found, too.
func TestNamesThatLookEscaped(t *testing.T) {
	f := &fake{}
	for _, name := range []string{"a%2520b", "a%20b", "a b", "50%", "%41"} {
		f.hooks = append(f.hooks, &hook.Hook{Name: name})
		f.queues = append(f.queues, Queue{Name: name})
	}
	api := operate(f).api()
	for path, want := range map[string]string{
		Name("a b"): "a b", Name("a%20b"): "a%20b", Name("a%2520b"): "a%2520b", Name("50%"): "50%", Name("%41"): "%41", "%41": "%41",
	} {
		if body := ask(api, "GET", "/hook/"+path+"/why.json", nil).Body.String(); !strings.HasPrefix(body, `{"hook":"`+want+`",`) {
			t.Errorf("%s is not hook %q: %s", path, want, body)
		}
		if body := ask(api, "GET", "/queue/"+path+"/lanes.json", nil).Body.String(); !strings.HasPrefix(body, `{"queue":"`+want+`",`) {
			t.Errorf("%s is not queue %q: %s", path, want, body)
		}
	}
}

// Names of hooks that are gone are decoded once, too.
func TestEscapedNamesThatAreNotActive(t *testing.T) {
	f := &fake{hooks: []*hook.Hook{{Name: "a%20b"}}}
	f.orphans = []finalizer.Orphan{{Entry: finalizer.Entry{Finalizer: "x/y", Resource: "pods", Hook: "gone b", Binding: "p"}, Objects: 1}}
	api := operate(f).api()
	for path, want := range map[string]string{
		Name("gone b") + "/why.json":   `{"hook":"gone b","verdict":"gone",`,
		Name("gone%20b") + "/why.json": `there is no hook \"gone%20b\"`,
	} {
		if body := ask(api, "GET", "/hook/"+path, nil).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
