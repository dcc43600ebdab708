package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
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
