package kubeevent

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The real API server takes the Events, and kubectl shows them with the Pod.
func TestDescribe(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	cluster.Kubectl(t, "-n", namespace, "run", "operator-0", "--image=operator")
	client, err := kube.NewClient(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &sender{opts: Options{Client: client, Namespace: namespace, Pod: "operator-0", Log: slog.New(slog.DiscardHandler)}}
	r := newRecorder()
	r.opts, r.send = s.opts, s.send
	r.Failed("a.sh", "main", `Hook "a.sh" fails: exit status 1`)
	r.flush(context.Background())
	r.Failed("a.sh", "main", "again")
	r.Failed("a.sh", "main", "again")
	r.hooks["a.sh"].failed.notBefore = r.hooks["a.sh"].failed.first
	r.Succeeded("a.sh", "main")
	r.flush(context.Background())

	got := cluster.Kubectl(t, "-n", namespace, "describe", "pod", "operator-0")
	for _, want := range []string{"HookFailed", "(x3 over", `Hook "a.sh" fails: exit status 1`, "HookRecovered"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
