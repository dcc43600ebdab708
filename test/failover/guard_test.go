package failover

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Restarts and a reload at 50 reviews a second, with a list that takes its time and then with a kind that is missing: no request passes
// unreviewed, because a registered webhook stays. Registrations by URL, as here, are removed when the operator ends by itself, so it is
// killed.
func TestGuardedThroughRestarts(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	ns, hooks := cluster.Namespace(t), t.TempDir()
	gateway, slowly := testenv.NewGateway(t, cluster.Kubeconfig, 1)
	testenv.Script(t, hooks, "guard", testenv.Testdata(t, "guard.sh", "$NS", ns, "$KIND", "ConfigMap"))
	start := func(port string) *testenv.Operator {
		return testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: slowly, Args: []string{
			"--validating-webhook-configuration-name", ns, "--validating-webhook-listen-port", port, "--watch-hooks",
		}})
	}
	op := start("0")
	_, port, err := net.SplitHostPort(op.UntilLog("webhook server started").Fields["address"])
	if err != nil {
		t.Fatal(err)
	}

	client := testenv.Client(t, cluster.Config(t))
	var mu sync.Mutex
	answers := map[string]int{}
	ask := func(ctx context.Context) string {
		_, err := kube.Send(ctx, client.Post().AbsPath("/api/v1/namespaces", ns, "configmaps").Param("dryRun", "All").MaxRetries(0).
			Body([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}`)))
		switch {
		case ctx.Err() != nil:
			return "late"
		case err == nil:
			return "admitted"
		case strings.Contains(err.Error(), "guarded"):
			return "guarded"
		}
		return "refused"
	}
	guarded := func() { // several times
		t.Helper()
		late := time.Now().Add(test.Patience)
		for n := 0; n < 25; {
			switch got := ask(t.Context()); {
			case got == "guarded":
				n++
			case time.Now().After(late):
				t.Fatalf("a request is %s", got)
			}
		}
	}
	guarded()
	ctx, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var requests errgroup.Group
	requests.SetLimit(16) // a slow machine gets fewer than 50 a second
	asking.Go(func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				requests.TryGo(func() error {
					got := ask(ctx)
					mu.Lock()
					defer mu.Unlock()
					answers[got]++
					return nil
				})
			case <-ctx.Done():
				_ = requests.Wait()
				return
			}
		}
	})
	for i := range 2 {
		gateway.Make(testenv.Trouble{})
		if i == 1 {
			testenv.Script(t, hooks, "guard", testenv.Testdata(t, "guard.sh", "$NS", ns, "$KIND", "MissingKind")) // a reload
			op.UntilLog("Hooks are reloaded")
			guarded()
		}
		op.Expect(-1)
		op.Signal(syscall.SIGKILL)
		op.Wait()
		gateway.Make(testenv.Trouble{Delay: 100 * time.Millisecond}) // the list is slow
		op = start(port)
		guarded()
	}
	end()
	asking.Wait()
	t.Log(answers)
	if answers["admitted"] > 0 || answers["guarded"] == 0 {
		t.Errorf("of the requests %v", answers)
	}
}
