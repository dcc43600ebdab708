package http

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestDefaultRolesOpenNothing sends the token of a default ServiceAccount to hooks at the paths that Kubernetes grants to every client.
func TestDefaultRolesOpenNothing(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	client := testenv.Client(t, c.Config(t))
	paths := []string{
		"/api", "/api/orders", "/apis/orders", "/openapi/v3", "/version", "/healthz", "/livez", "/readyz", "/livez/orders",
		"/.well-known/openid-configuration", "/openid/v1/jwks", "/orders",
	}
	token := func(args ...string) string {
		return "Bearer " + strings.TrimSpace(c.Kubectl(t, append([]string{"-n", namespace, "create", "token", "default"}, args...)...))
	}
	// status returns the status of a request: 200 if the hook would run.
	status := func(authorization, path string) int {
		a := NewAccess(client, slog.New(slog.DiscardHandler)) // without a cache
		user, err := a.identify(t.Context(), "192.0.2.1", authorization)
		if err == nil {
			err = a.authorize(t.Context(), user, &hook.HTTP{Method: "GET"}, path)
		}
		var refused *httpserver.Refusal
		switch {
		case errors.As(err, &refused):
			return refused.Status
		case err != nil:
			t.Fatal(err)
		}
		return http.StatusOK
	}
	for _, path := range paths {
		if got := status(token(), path); got != http.StatusForbidden {
			t.Errorf("%s without a Role: status %d", path, got)
		}
	}
	user := "system:serviceaccount:" + namespace + ":default"
	c.KubectlInput(t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "`+namespace+
		`"}, "rules": [{"nonResourceURLs": ["/hooks.shell-operator/*", "/orders"], "verbs": ["get"]}]}`, "create", "-f", "-")
	c.Kubectl(t, "create", "clusterrolebinding", namespace, "--clusterrole="+namespace, "--serviceaccount="+namespace+":default")
	t.Cleanup(func() { c.Kubectl(t, "delete", "clusterrole/"+namespace, "clusterrolebinding/"+namespace) })
	c.UntilAllowed(t, user, namespace, "get", "/orders")
	for _, path := range paths {
		if got := status(token(), path); got != http.StatusOK {
			t.Errorf("%s with a Role: status %d", path, got)
		}
	}
	for name, row := range map[string]struct {
		token string
		want  int
	}{
		"of this audience": {token("--audience", audience), http.StatusOK},
		"of both":          {token("--audience", audience, "--audience", "other"), http.StatusOK},
		"of another one":   {token("--audience", "other"), http.StatusUnauthorized},
		"that is forged":   {"Bearer x.eyJhdWQiOiJzaGVsbC1vcGVyYXRvciJ9.x", http.StatusUnauthorized},
	} {
		if got := status(row.token, "/orders"); got != row.want {
			t.Errorf("a token %s: status %d, want %d", name, got, row.want)
		}
	}
}
