package kubeevent

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The real API server takes the Events, and kubectl shows them with the Pod.
func TestDescribe(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	cluster.Kubectl(t, "-n", namespace, "run", "operator-0", "--image=operator")
	cluster.Kubectl(t, "-n", namespace, "create", "role", "events", "--verb=create,patch", "--resource=events.events.k8s.io")
	cluster.Kubectl(t, "-n", namespace, "create", "rolebinding", "events", "--role=events", "--serviceaccount="+namespace+":default")
	config := cluster.Config(t)
	config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":default"
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	// As the chart starts it: the uid is given, and ServiceAccount "default" is not allowed to read the Pod.
	uid := cluster.Kubectl(t, "-n", namespace, "get", "pod", "operator-0", "-o", "jsonpath={.metadata.uid}")
	s := newSender(Options{Client: client, Namespace: namespace, Pod: "operator-0", UID: types.UID(uid), Log: slog.New(slog.DiscardHandler)})
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
