package failover

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// After a kill, a hook whose onStartup run fails keeps no other from answering, and what is registered for it stays until it is ready.
func TestKilledBesideAHookThatWaits(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	hooks, prepared := t.TempDir(), filepath.Join(t.TempDir(), "prepared")
	prepare := func() {
		t.Helper()
		if err := os.WriteFile(prepared, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prepare()
	for name, text := range map[string]string{
		"healthy": testenv.Testdata(t, "reviewer.sh", "$MORE", "", "$NAME", "healthy."+ns, "$NS", ns, "$RESOURCE", "configmaps"),
		"waits":   testenv.Testdata(t, "reviewer.sh", "$MORE", "onStartup: 1,", "$NAME", "waits."+ns, "$NS", ns, "$RESOURCE", "secrets"),
	} {
		testenv.Script(t, hooks, name, text)
	}
	denied := func(kind, by string) {
		t.Helper()
		args := []string{"-n", ns, "create", kind, "x", "--dry-run=server"}
		if kind == "secret" {
			args = []string{"-n", ns, "create", "secret", "generic", "x", "--dry-run=server"}
		}
		for late := time.Now().Add(test.Patience); ; {
			out, err := cluster.TryKubectl("", args...)
			if err != nil && strings.Contains(out, "denied by "+by) {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("%s, %v", out, err)
			}
		}
	}
	start := func(port string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.Kubeconfig, Env: []string{"PREPARED=" + prepared},
			Args: []string{"--validating-webhook-configuration-name", ns, "--validating-webhook-listen-port", port,
				"--retry-min-delay", "100ms", "--retry-max-delay", "100ms"}})
	}
	registered := func() string {
		return cluster.Kubectl(t, "get", "validatingwebhookconfiguration", ns+"-hooks", "-o",
			"jsonpath={range .webhooks[*]}{.name} {.clientConfig.caBundle}{'\\n'}{end}")
	}
	first := start("0")
	address := first.UntilLog("webhook server started").Fields["address"]
	denied("configmap", "healthy")
	denied("secret", "waits")
	before := strings.Split(registered(), "\n")
	first.Expect(-1)
	first.Signal(syscall.SIGKILL)
	first.Wait()
	if err := os.Remove(prepared); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}

	second := start(port)
	second.UntilLog("Webhooks are registered again, the configuration had changed")
	denied("configmap", "healthy")
	if text := second.Page("/readyz"); !strings.Contains(text, `hook "waits" waits: `) {
		t.Errorf("/readyz: %s", text)
	}
	after := strings.Split(registered(), "\n")
	if len(after) != len(before) || after[0] == before[0] || after[1] != before[1] {
		t.Errorf("registered are %q, before %q", after, before)
	}

	prepare()
	denied("secret", "waits")
}
