package debug

import (
	"encoding/json"
	"testing"
	"time"

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
