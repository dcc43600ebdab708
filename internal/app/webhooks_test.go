package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/testenv"
)

// Inside a cluster webhooks are registered by their Services, with certificates of one Secret. Nobody can call them here,
// as there are no Pods; what is registered is looked at.
func TestWebhooksInside(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "validatingwebhookconfiguration", namespace+"-hooks", "--ignore-not-found")
	})
	op := &operator{log: slog.New(slog.DiscardHandler), hooks: []*hook.Hook{{
		Name: "hook.sh",
		Validating: []hook.Admission{{
			Binding: hook.Binding{Name: "deny.example.com"}, SideEffects: "None", TimeoutSeconds: 10, FailurePolicy: "Ignore",
			Rules: []hook.Rule{{APIGroups: []string{namespace + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}, Operations: []string{"CREATE"}}},
		}},
	}}}
	w, err := newWebhooks(t.Context(), op, &cluster{config: c.Config(t), inside: true}, Options{
		Log: op.log,
		Webhooks: WebhookOptions{
			Admission:         WebhookServer{ListenAddress: "127.0.0.1:0", ServiceName: "admission-svc", Cert: "/no/such/file"},
			Conversion:        WebhookServer{ServiceName: "conversion-svc"},
			ConfigurationName: namespace, FailurePolicy: "Fail", Namespace: namespace, SecretName: "webhook-certificates",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	filled, ended := make(chan struct{}), make(chan struct{})
	close(filled)
	go func() {
		defer close(ended)
		w.run(ctx, filled, stop)
	}()
	c.Kubectl(t, "wait", "--for=create", "validatingwebhookconfiguration/"+namespace+"-hooks", "--timeout=30s")
	got := c.Kubectl(t, "get", "validatingwebhookconfiguration", namespace+"-hooks", "-o", "jsonpath={.webhooks[0].clientConfig.service}{.webhooks[0].failurePolicy}")
	if !strings.Contains(got, `"name":"admission-svc","namespace":"`+namespace+`"`) || !strings.HasSuffix(got, "Ignore") {
		t.Errorf("registered as %s", got)
	}
	bundle := c.Kubectl(t, "get", "validatingwebhookconfiguration", namespace+"-hooks", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
	secret := c.Kubectl(t, "-n", namespace, "get", "secret", "webhook-certificates", "-o", `jsonpath={.data.ca\.crt}`)
	if bundle == "" || bundle != secret {
		t.Errorf("the API server trusts %q, but the Secret has %q", bundle, secret)
	}
	stop(nil)
	<-ended

	// Hooks without webhooks: the next operator removes what the last one has left.
	op.hooks = nil
	w, err = newWebhooks(t.Context(), op, &cluster{config: c.Config(t), inside: true}, Options{
		Log:      op.log,
		Webhooks: WebhookOptions{Admission: WebhookServer{ServiceName: "admission-svc"}, ConfigurationName: namespace, Namespace: namespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancelCause(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, filled, stop)
	}()
	c.Kubectl(t, "wait", "--for=delete", "validatingwebhookconfiguration/"+namespace+"-hooks", "--timeout=30s")
	stop(nil)
	<-ended
}
