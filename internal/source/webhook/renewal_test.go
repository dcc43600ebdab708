package webhook

import (
	"context"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
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
	hooks := func() []*hook.Hook {
		return []*hook.Hook{{
			Name: "hook.sh",
			Validating: []hook.Admission{{
				Binding: hook.Binding{Name: "deny.example.com"}, SideEffects: "None", TimeoutSeconds: 10, FailurePolicy: "Ignore",
				Rules: []hook.Rule{{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"},
					Operations: []string{"CREATE"}}},
			}},
		}}
	}
	earlier := hooks()
	s, err := New(t.Context(), Options{
		Cluster: &kube.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:1"}}, Hooks: earlier, Leading: make(chan struct{}),
		Ready: func(*hook.Hook, hook.Address) bool { return true }, ReadyChanged: func() <-chan struct{} { return nil },
		Log:      slog.New(slog.DiscardHandler),
		Webhooks: WebhookOptions{Admission: WebhookServer{ListenAddress: "127.0.0.1:0"}, ConfigurationName: "x", FailurePolicy: "Fail"},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s)
	r, err := s.Prepare(t.Context(), hooks())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Holds(earlier[0]) {
		t.Error("the hook does not answer before the reload")
	}
	retired := make(chan bool, 100)
	r.Commit(func() { retired <- r.Holds(earlier[0]) })
	for test.Receive(t, retired, "end of the previous handlers") {
	}
}

// Only the leader registers, by a Service as by a URL.
func TestOnlyTheLeaderRegisters(t *testing.T) {
	leading := make(chan struct{})
	w := &Servers{o: Options{Leading: leading}}
	targets := []keep.Target{w.target(&served{url: "https://127.0.0.1:1"}), w.target(&served{service: types.NamespacedName{Name: "a"}})}
	for _, want := range []bool{false, true} {
		for _, target := range targets {
			if got := target.Registers(); got != want {
				t.Errorf("%q%s registers: %t, want %t", target.URL, target.Service, got, want)
			}
		}
		if !want {
			close(leading)
		}
	}
}
