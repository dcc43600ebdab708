package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// denies is a hook that denies objects named "bad", and all objects of a "guard", with a text that describes the
// request.
var denies = runnerFunc(func(_ context.Context, h *hook.Hook, typ event.Type, index int, review []byte) (*effect.AdmissionAnswer, error) {
	var r struct {
		APIVersion, Kind string
		Request          struct {
			Operation, Name            string
			Resource                   struct{ Resource string }
			SubResource                string
			Object, OldObject, Options json.RawMessage
		}
	}
	if err := json.Unmarshal(review, &r); err != nil {
		return nil, err
	}
	if r.APIVersion != "admission.k8s.io/v1" || r.Kind != "AdmissionReview" || r.Request.Object == nil || r.Request.OldObject == nil ||
		r.Request.Options == nil {
		return nil, fmt.Errorf("something is missing: %s", review)
	}
	b := event.Event{Hook: h, Type: typ, Index: index}
	return &effect.AdmissionAnswer{
		Allowed: !strings.Contains(r.Request.Name, "bad"), Warnings: []string{"looked at\n" + r.Request.Name},
		Message: fmt.Sprintf("%s does not like %s of %s/%s %s", b.Binding().Name, r.Request.Operation, r.Request.Resource.Resource,
			r.Request.SubResource, r.Request.Name),
	}, nil
})

func TestOperations(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	c.Kubectl(t, "-n", ns, "create", "configmap", "bad-old")
	op := operate(t, c, ns, denies,
		&hook.Hook{Name: "sub/Guard 1.sh", Validating: []hook.Admission{
			{Binding: named("maps.acme.dev")},
			{Binding: named("connect.acme.dev"), Rules: rule("services/proxy", "CONNECT")},
		}})
	denied := `admission webhook "maps.acme.dev" denied the request: maps.acme.dev does not like `
	op.says(denied+"CREATE of configmaps/ bad", "", "create", "configmap", "bad")
	op.says("configmap/good created", "", "create", "configmap", "good")
	op.says("Warning: looked at good", "", "label", "configmap", "good", "x=y")
	op.says(denied+"UPDATE of configmaps/ bad-old", "", "label", "configmap", "bad-old", "x=y")
	op.says(denied+"DELETE of configmaps/ bad-old", "", "delete", "configmap", "bad-old")
	op.says(`configmap "good" deleted`, "", "delete", "configmap", "good")
	op.says(denied+"CREATE of configmaps/ bad", "", "create", "configmap", "bad", "--dry-run=server")
	raw := "/api/v1/namespaces/" + ns + "/services/"
	op.says(`admission webhook "connect.acme.dev" denied the request: connect.acme.dev does not like CONNECT of services/proxy bad`, "", "get",
		"--raw", raw+"bad/proxy/")
	op.says(`services "good" not found`, "", "get", "--raw", raw+"good/proxy/")
	if strings.Contains(op.log.String(), "result=failed") {
		t.Error(op.log)
	}
	if err := op.stop(); err != nil {
		t.Error(err)
	}
}

// The API server accepts the condition for excluded clients, and does not call webhooks for them.
func TestExcludedClientsOnServer(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	op := operateWith(t, c, c.Namespace(t), denies, RegistrarOptions{
		Hooks:        []*hook.Hook{{Name: "a.sh", Validating: []hook.Admission{{Binding: named("maps.acme.dev")}}}},
		ExcludeUsers: []string{"alice"}, ExcludeGroups: []string{"example:nodes"},
	})
	create := []string{"create", "configmap", "bad", "--dry-run=server"}
	op.says("denied the request", "", create...)
	op.says("denied the request", "", append(create, "--as=bob", "--as-group=system:masters")...)
	op.says("configmap/bad created", "", append(create, "--as=alice", "--as-group=system:masters")...)
	op.says("configmap/bad created", "", append(create, "--as=bob", "--as-group=system:masters", "--as-group=example:nodes")...)
}

func TestMutation(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	runner := runnerFunc(func(_ context.Context, h *hook.Hook, _ event.Type, _ int, review []byte) (*effect.AdmissionAnswer, error) {
		// The second one sees what the first one did.
		value := "first"
		if strings.Contains(string(review), `"by":"first"`) {
			value = "first-then-" + h.Name[:1]
		}
		return &effect.AdmissionAnswer{Allowed: true, Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"by":"` + value + `"}}]`)},
			nil
	})
	op := operate(t, c, ns, runner,
		&hook.Hook{Name: "2.sh", Mutating: []hook.Admission{{Binding: named("z.acme.dev"), Rules: rule("configmaps", "CREATE")}}},
		&hook.Hook{Name: "1.sh", Mutating: []hook.Admission{{Binding: named("a.acme.dev"), Rules: rule("configmaps", "CREATE")}}})
	op.says(`"by":"first-then-1"`, "", "create", "configmap", "x", "--dry-run=server", "-o", "jsonpath={.metadata.labels}")
	if live(t, c, validating, ns) != nil {
		t.Error("there is a configuration without webhooks")
	}
}

func TestFailurePolicies(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	crashes := runnerFunc(func(_ context.Context, _ *hook.Hook, typ event.Type, _ int, _ []byte) (*effect.AdmissionAnswer, error) {
		if typ == event.Mutating {
			return &effect.AdmissionAnswer{Allowed: true, Patch: []byte(`{"no":"list"}`)}, nil
		}
		return nil, errors.New("exit status 1")
	})
	op := operate(t, c, ns, crashes, &hook.Hook{
		Name: "crash.sh",
		Validating: []hook.Admission{
			{Binding: named("fail.acme.dev"), Rules: rule("configmaps", "CREATE"), FailurePolicy: "Fail"},
			{Binding: named("ignore.acme.dev"), Rules: rule("secrets", "CREATE"), FailurePolicy: "Ignore"},
		},
		Mutating: []hook.Admission{{Binding: named("garbage.acme.dev"), Rules: rule("secrets", "CREATE"), FailurePolicy: "Ignore"}},
	})
	op.says(`admission webhook "fail.acme.dev" denied the request: Hook failed: hook "crash.sh" could not review the request`, "", "create",
		"configmap", "x", "--dry-run=server")
	got := ""
	until(t, func() (string, bool) {
		got = op.kubectl("", "create", "secret", "generic", "x", "--dry-run=server")
		return got, strings.Contains(got, "invalid patch") && strings.Contains(got, "could not review")
	})
	if !strings.Contains(got, "secret/x created") {
		t.Error(got)
	}
}
