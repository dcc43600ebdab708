package webhook

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
)

// start runs servers until the test ends.
func start(t *testing.T, s *Servers) {
	ctx, stop := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx, stop)
	}()
	t.Cleanup(func() {
		stop(nil)
		<-ended
	})
}

// On a standby a reload replaces the handlers, although the address is registered by the leader only.
func TestRenewalOnStandby(t *testing.T) {
	ready, retired := make(chan struct{}), make(chan struct{})
	close(ready)
	hooks := []*hook.Hook{{
		Name: "hook.sh",
		Validating: []hook.Admission{{
			Binding: hook.Binding{Name: "deny.example.com"}, SideEffects: "None", TimeoutSeconds: 10, FailurePolicy: "Ignore",
			Rules: []hook.Rule{{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"},
				Operations: []string{"CREATE"}}},
		}},
	}}
	s, err := New(t.Context(), Options{
		Cluster: &kube.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1"}}, Hooks: hooks, Leading: make(chan struct{}),
		Log:      slog.New(slog.DiscardHandler),
		Webhooks: WebhookOptions{Admission: WebhookServer{ListenAddress: "127.0.0.1:0"}, ConfigurationName: "x", FailurePolicy: "Fail"},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s)
	before := s.admission.handler.now
	r, err := s.Prepare(t.Context(), hooks)
	if err != nil {
		t.Fatal(err)
	}
	r.Commit(ready, func() { close(retired) })
	test.Receive(t, retired, "end of the previous handlers")
	if s.admission.handler.now == before {
		t.Error("the previous handler still answers")
	}
}
