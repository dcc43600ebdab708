package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

func TestPaths(t *testing.T) {
	for _, row := range []struct {
		hook    string
		typ     event.Type
		binding string
		want    string
	}{
		{"limits.sh", event.Validating, "limits.policy.acme.dev", "/hooks/validating/limits.sh/limits.policy.acme.dev"},
		{"limits.sh", event.Mutating, "limits.policy.acme.dev", "/hooks/mutating/limits.sh/limits.policy.acme.dev"},
		{"001-policies/limits.sh", event.Validating, "a.b.c", "/hooks/validating/001-policies/limits.sh/a.b.c"},
		{"Policies/deny_latest.sh", event.Validating, "a.b.c", "/hooks/validating/policies/deny-latest-sh-ea5e1d54/a.b.c"},
		{"policies/deny_latest.sh", event.Validating, "a.b.c", "/hooks/validating/policies/deny-latest-sh-a5d5887c/a.b.c"},
		{"правило", event.Validating, "a.b.c", "/hooks/validating/eea92a29/a.b.c"},
		{".-/a b", event.Validating, "a.b.c", "/hooks/validating/a-b-9ae3a0f0/a.b.c"},
	} {
		if got := pathOf(row.hook, row.typ, row.binding); got != row.want {
			t.Errorf("%s: got %s, want %s", row.hook, got, row.want)
		}
	}
}

// Whatever a hook is called, the API server accepts its path.
func TestPathsAreAccepted(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[-a-zA-Z0-9._/ ]{1,20}`), rapid.String(), rapid.StringMatching(`[a-z/-]{250,600}`))
	rapid.Check(t, func(t *rapid.T) {
		hookName := name.Draw(t, "name")
		path := pathOf(hookName, event.Validating, "a.b.c")
		for _, segment := range strings.Split(path, "/")[1:] {
			if problems := validation.IsDNS1123Subdomain(segment); len(problems) > 0 {
				t.Fatalf("%q: segment %q of %s: %v", hookName, segment, path, problems)
			}
		}
	})
}

func TestLegacyPaths(t *testing.T) {
	for name, want := range map[string]string{
		"limits.policy.acme.dev": "/hooks/limits-policy-acme-dev",
		"checkQuota.acme.dev":    "/hooks/check-quota-acme-dev",
		"a--b.c_d.dev":           "/hooks/a-b-c-d-dev",
		"a/b":                    "/hooks/a/b",
	} {
		if got := legacyPath(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestNamesThatAreTaken(t *testing.T) {
	for _, row := range []struct{ hooks, want string }{
		{"validating a.sh x.acme.dev\nmutating a.sh x.acme.dev\nvalidating b.sh y.acme.dev", ""},
		{"validating a.sh x-y.acme.dev\nvalidating b.sh x.y-acme.dev", ""}, // equal in the original
		{
			"validating a.sh x.acme.dev\nvalidating b.sh x.acme.dev\nmutating a.sh z.acme.dev\nmutating c.sh z.acme.dev",
			`hooks "a.sh" and "b.sh" both have a kubernetesValidating binding "x.acme.dev": give each a name of its own` + "\n" +
				`hooks "a.sh" and "c.sh" both have a kubernetesMutating binding "z.acme.dev": give each a name of its own`,
		},
	} {
		hooks, _ := parseHooks(t, row.hooks)
		_, err := New(Options{Hooks: hooks})
		_, err2 := NewRegistrar(RegistrarOptions{Hooks: hooks, Target: keep.Target{URL: "https://x", Log: (&logText{}).logger(t)}})
		for _, err := range []error{err, err2} {
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		}
	}
	if _, err := New(Options{DefaultFailurePolicy: "ignore"}); err == nil ||
		err.Error() != `the failure policy "ignore" is unknown: use Fail or Ignore` {
		t.Error(err)
	}
}
