package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// moments is a clock that stands until the test moves it, and reports its timers.
type moments struct {
	*clocktesting.FakeClock
	timers chan time.Duration
}

func newMoments() moments {
	return moments{clocktesting.NewFakeClock(time.Now()), make(chan time.Duration, 1000)}
}

// NewTimer reports a timer when it is there.
func (m moments) NewTimer(d time.Duration) clock.Timer {
	timer := m.FakeClock.NewTimer(d)
	m.timers <- d
	return timer
}

// until waits for new timers, in any order.
func (m moments) until(t *testing.T, awaited ...time.Duration) {
	t.Helper()
	for len(awaited) > 0 {
		got := test.Receive(t, m.timers, fmt.Sprintf("timers of %s", awaited))
		if i := slices.Index(awaited, got); i >= 0 {
			awaited = slices.Delete(awaited, i, i+1)
		}
	}
}

// confined is an operator in this process, with a tenant and the clock of the test.
type confined struct {
	log         *test.Text
	socket, tmp string
}

// startConfined starts an operator with hooks below shop/, which belong to the account hooks of a namespace.
func startConfined(t *testing.T, kubeconfig, namespace string, lifetime time.Duration, now moments, hooks map[string]string) *confined {
	t.Helper()
	dir := t.TempDir()
	for name, text := range hooks {
		path := filepath.Join(dir, "hooks", "shop", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tenants := filepath.Join(dir, "tenants.yaml")
	text := fmt.Sprintf("- {name: shop, folder: shop, serviceAccount: %s/hooks}\n", namespace)
	if err := os.WriteFile(tenants, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "operator-") // paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	op := &confined{&test.Text{}, filepath.Join(sockets, "debug.socket"), filepath.Join(dir, "tmp")}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, context.Background(), Options{
			HooksDir: filepath.Join(dir, "hooks"), TmpDir: op.tmp, Env: append(env, "PATH="+test.Tools(t)+":"+os.Getenv("PATH")),
			Log: slog.New(slog.NewJSONHandler(op.log, nil)), Cluster: kube.Options{Kubeconfig: kubeconfig, QPS: -1},
			Tenants: tenants, TokenLifetime: lifetime, Clock: now, Workers: true, Kubectl: kubectl.Auto,
			ConfigTimeout: time.Minute, RetryMin: time.Second, RetryMax: time.Second, ShutdownTimeout: 10 * time.Second,
			ListenAddress: "127.0.0.1:0", Metrics: MetricsOptions{Prefix: "shell_operator_"},
			Debug: DebugOptions{Level: &slog.LevelVar{}, Socket: op.socket, SocketChosen: true},
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(sockets)
		if t.Failed() {
			t.Log(op.log.String()[:min(20000, len(op.log.String()))])
		}
	})
	return op
}

// ask returns what a command prints about the operator. It may fail, as status does while there are troubles.
func (op *confined) ask(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), args...)
	cmd.Env = append(os.Environ(), "DEBUG_UNIX_SOCKET="+op.socket)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// token returns the current one of the tenant, from its file, and its lifetime as the API server has signed it.
func (op *confined) token(t *testing.T) (text string, lifetime time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(op.tmp, "*", "tokens", "*", "token"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of tokens: %q, %v", files, err)
	}
	token, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(token), ".")
	var claims struct{ Exp, Iat int64 }
	if claim, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)]); err != nil || json.Unmarshal(claim, &claims) != nil {
		t.Fatalf("a token that is not to be read: %v", err)
	}
	return string(token), time.Duration(claims.Exp-claims.Iat) * time.Second
}

const (
	ofHooks = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: hooks, namespace: SHOP}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: hooks, namespace: SHOP}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: hooks, namespace: SHOP}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: hooks}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
	readers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: readers, namespace: PAINT}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: PAINT}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: readers}
subjects: [{kind: ServiceAccount, name: hooks, namespace: SHOP}]
`
)

// serving is a hook whose worker serves all runs: it asks the API server who it is, and changes an object.
const serving = `#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"
__config__() {
  echo '{configVersion: v1, settings: {worker: true}, kubernetes: [{name: one, kind: ConfigMap,
    namespace: {nameSelector: {matchNames: [SHOP]}}, nameSelector: {matchNames: [one]}}]}'
}
__on_kubernetes::one() {
  echo "worker $$ is $(kubectl auth whoami -o jsonpath='{.status.userInfo.username}')"
  echo "{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: SHOP},
    data: {run: \"$BASHPID\"}}}" >"$KUBERNETES_PATCH_PATH"
}
hook::run "$@"
`

// Tokens of 600 s are renewed after 480 s. The operator, and the next run of a worker that stays, send the new one and never again the one
// before.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	shop := c.Namespace(t)
	in := strings.NewReplacer("SHOP", shop).Replace
	account := "system:serviceaccount:" + shop + ":hooks"
	c.KubectlInput(t, in(ofHooks), "apply", "-f", "-")
	c.UntilAllowed(t, account, shop, "update", "configmaps")
	c.Kubectl(t, "-n", shop, "create", "configmap", "one")
	gateway, kubeconfig := testenv.NewGateway(t, c.Kubeconfig, 1)
	now := newMoments()
	op := startConfined(t, kubeconfig, shop, 10*time.Minute, now, map[string]string{"serving.sh": in(serving)})
	const renewal, review = 480 * time.Second, 600 * time.Second
	var before []string
	sent := 0
	for runs := 1; runs <= 3; runs++ {
		if runs == 2 {
			now.until(t, renewal)
		} else { // after 600 s the permissions are reviewed, perhaps with the token before
			now.until(t, renewal, review)
		}
		token, lifetime := op.token(t)
		if slices.Contains(before, token) || lifetime != 600*time.Second {
			t.Errorf("token %d is one before: %t; it lives for %s", runs, slices.Contains(before, token), lifetime)
		}
		if runs > 1 {
			sent = len(gateway.Changes())
			c.Kubectl(t, "-n", shop, "patch", "configmap", "one", "-p", fmt.Sprintf(`{"data": {"n": "%d"}}`, runs))
		}
		op.log.Until(t, "Hook executed successfully", runs)
		byWhom := map[string]bool{}
		for _, change := range gateway.Changes()[sent:] {
			if slices.Contains(before, change.Token) {
				t.Errorf("%s %s is sent with a token that was renewed", change.Method, change.Path)
			}
			if change.Token == token && change.Status < http.StatusBadRequest {
				byWhom[filepath.Base(change.Path)] = true
			}
		}
		if !byWhom["selfsubjectreviews"] || !byWhom["configmaps"] && !byWhom["made"] {
			t.Errorf("with token %d are sent %v, want those of kubectl and of the operation", runs, byWhom)
		}
		before = append(before, token)
		now.Step(renewal)
	}
	now.until(t, renewal)
	workers := regexp.MustCompile(`worker (\d+) is ([\w:-]+)`).FindAllStringSubmatch(op.log.String(), -1)
	if len(workers) != 3 {
		t.Fatalf("runs %q", workers)
	}
	for _, w := range workers {
		if w[0] != workers[0][0] || w[2] != account {
			t.Errorf("worker %s is %s, that of the first run was %s", w[1], w[2], workers[0][1])
		}
	}
	if strings.Contains(op.log.String(), "Cannot get a token") {
		t.Error("a token could not be requested")
	}
}

// losing is a hook with a binding of its own and one in another namespace, whose permission is revoked. Objects are named for what becomes
// of their runs.
const losing = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, settings: {retry: {limit: 1}}, kubernetes: [
    {name: own, kind: ConfigMap, queue: own, namespace: {nameSelector: {matchNames: [SHOP]}}, nameSelector: {matchNames: [one]}},
    {name: foreign, kind: ConfigMap, queue: foreign, namespace: {nameSelector: {matchNames: [PAINT]}},
      labelSelector: {matchLabels: {lost: "no"}}}]}'
  exit
fi
got=$(jq -r '[.[] | .binding + " " + .type + " " + ([.object.metadata.name] + [.objects[]?.object.metadata.name] | map(strings) | join(","))] |
  join("; ")' "$BINDING_CONTEXT_PATH")
echo "got $got."
case $got in
"foreign Event parks") exit 1 ;;
"foreign Event comes-again") echo 'requeueAfter: 1h' >"$RUN_RESULT_PATH" ;;
"foreign Event blocks") read -r _ <GATE ;;
esac
`

// A permission that is revoked ends its binding while events wait, are parked and requeued: they are dropped, and status and why name the
// rule. When it is granted again, a Synchronization has all objects.
func TestPermissionIsRevoked(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	shop, paint := c.Namespace(t), c.Namespace(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if out, err := exec.Command("mkfifo", gate).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := strings.NewReplacer("SHOP", shop, "PAINT", paint, "GATE", gate).Replace
	account := "system:serviceaccount:" + shop + ":hooks"
	c.KubectlInput(t, in(ofHooks+"---"+readers), "apply", "-f", "-")
	c.UntilAllowed(t, account, shop, "update", "configmaps")
	c.UntilAllowed(t, account, paint, "watch", "configmaps")
	create := func(names ...string) {
		t.Helper()
		for _, name := range names {
			c.KubectlInput(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {lost: 'no'}}}", name,
				paint), "create", "-f", "-")
		}
	}
	create("first")
	now := newMoments()
	op := startConfined(t, c.Kubeconfig, shop, time.Hour, now, map[string]string{"losing.sh": in(losing)})
	op.log.Until(t, "got foreign Synchronization first.", 1)
	create("parks")
	op.log.Until(t, "got foreign Event parks.", 1)
	create("comes-again")
	op.log.Until(t, "got foreign Event comes-again.", 1)
	create("blocks")
	op.log.Until(t, "got foreign Event blocks.", 1)
	create("waits")
	object := func() string { return op.ask(t, "why", "--object", "configmap/"+paint+"/comes-again") }
	const renewal, review = 48 * time.Minute, 10 * time.Minute
	now.until(t, renewal, review, review)
	if parked := op.ask(t, "parked"); !strings.Contains(parked, "shop/losing.sh") {
		t.Errorf("parked:\n%s", parked)
	}
	if why := object(); !strings.Contains(why, "it is delivered again in ") {
		t.Errorf("before, the requeued object:\n%s", why)
	}

	c.Kubectl(t, "-n", paint, "delete", "rolebinding", "readers")
	c.UntilDenied(t, account, paint, "watch", "configmaps")
	now.Step(review)
	op.log.Until(t, "may not read the objects of the binding any more: it ends", 1)
	if parked := op.ask(t, "parked"); strings.Contains(parked, "shop/losing.sh") {
		t.Errorf("parked after that:\n%s", parked)
	}
	if why := object(); strings.Contains(why, "it is delivered again in ") {
		t.Errorf("the requeued object after that:\n%s", why)
	}
	if queues := op.ask(t, "queue", "list", "-o", "text"); strings.Contains(queues, "waits") {
		t.Errorf("queues after that:\n%s", queues)
	}
	rule := fmt.Sprintf(`give the ServiceAccount %s/hooks, by a Role in namespace %q (or a ClusterRole), the rule {apiGroups: [""], `+
		`resources: ["configmaps"], verbs: ["list", "watch"]}`, shop, paint)
	for _, command := range [][]string{{"status"}, {"why", "shop/losing.sh"}} {
		if text := op.ask(t, command...); !strings.Contains(text, rule) {
			t.Errorf("%s lacks %s:\n%s", command, rule, text)
		}
	}
	create("later")
	c.Kubectl(t, "-n", shop, "create", "configmap", "one")
	op.log.Until(t, "got own Event one.", 1) // the other binding continues
	if err := os.WriteFile(gate, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	op.log.Until(t, "Hook executed successfully", 5)

	c.KubectlInput(t, in(readers), "apply", "-f", "-")
	c.UntilAllowed(t, account, paint, "watch", "configmaps")
	now.until(t, time.Second)
	now.Step(time.Second)
	op.log.Until(t, "may read the objects of the binding now", 1)
	op.log.Until(t, "got foreign Synchronization blocks,comes-again,first,later,parks,waits.", 1)
	create("after")
	op.log.Until(t, "got foreign Event after.", 1)
	if log := op.log.String(); strings.Contains(log, "Event waits.") || strings.Contains(log, "Event later.") {
		t.Error("events are delivered beside the Synchronization that has their objects")
	}
	if text := op.ask(t, "status"); strings.Contains(text, rule) {
		t.Errorf("status:\n%s", text)
	}
}
