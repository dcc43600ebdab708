package conversion

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// leftCRDs is an API server with CRDs, by name with their client configuration. Those whose name begins with other are written by another
// client.
type leftCRDs struct {
	configs map[string]string
	// forbidden: CRDs can be read by name only.
	forbidden bool
}

func (l leftCRDs) RoundTrip(r *http.Request) (*http.Response, error) {
	var items []string
	name, byName := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	status := http.StatusOK
	switch {
	case l.forbidden && !byName, r.URL.Query().Get("watch") != "":
		status = http.StatusForbidden
	case byName && l.configs[name] != "":
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":%s}}}}`,
			name, l.configs[name]))
	default:
		for name := range l.configs {
			manager := map[bool]string{true: "kubectl", false: "shell-operator"}[strings.HasPrefix(name, "other")]
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"managedFields":[{"manager":%q}]}}`, name, manager))
		}
	}
	body := `{"items":[` + strings.Join(items, ",") + `]}`
	if status != http.StatusOK {
		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// CRDs that lead to the operator are reported, if no hook converts their objects.
func TestLeft(t *testing.T) {
	at := func(namespace, name, path string) string {
		return fmt.Sprintf(`{"service":{"namespace":%q,"name":%q,"path":%q}}`, namespace, name, path)
	}
	configs := map[string]string{
		widgets:          at("ops", "hooks", "/"+widgets),
		"a.acme.dev":     at("ops", "hooks", "/a.acme.dev"),
		"token.acme.dev": at("ops", "hooks", "/token.acme.dev/secret"),
		"b.acme.dev":     at("ops", "others", "/b.acme.dev"),
		"c.acme.dev":     at("others", "hooks", "/c.acme.dev"),
		"d.acme.dev":     `{"url":"https://127.0.0.1:9681/d.acme.dev"}`,
		"other.acme.dev": at("ops", "hooks", "/other.acme.dev"),
	}
	for _, test := range []struct {
		name      string
		target    keep.Target
		forbidden bool
		earlier   []string
		want      []string
	}{
		{"a Service", keep.Target{Service: service}, false, nil, []string{"a.acme.dev", "token.acme.dev"}},
		{"a URL", keep.Target{URL: "https://127.0.0.1:9681"}, false, nil, []string{"d.acme.dev"}},
		{"another port", keep.Target{URL: "https://127.0.0.1:9682"}, false, nil, nil},
		{"no permission to list", keep.Target{Service: service}, true, []string{"a.acme.dev", "b.acme.dev", widgets, "gone.acme.dev"},
			[]string{"a.acme.dev"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := kube.NewClient(&rest.Config{Host: "https://offline", QPS: -1, Transport: leftCRDs{configs, test.forbidden}})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			reported := map[string]bool{}
			target := complete(test.target)
			target.Client, target.Bundle, target.Log = client, func() []byte { return nil }, slog.New(slog.DiscardHandler)
			target.Leading = make(chan struct{}) // it registers nothing
			target.Report = func(_ hook.Kind, hooks []string, object string, err error) {
				if name, _ := strings.CutPrefix(object, "CustomResourceDefinition "); err != nil {
					mu.Lock()
					reported[name] = len(hooks) == 0
					mu.Unlock()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = NewRegistrar(RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Target: target, Earlier: test.earlier}).Run(ctx)
			var got []string
			for name := range reported {
				got = append(got, name)
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("%s: reported %q", test.name, got)
			}
		})
	}
}
