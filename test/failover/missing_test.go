package failover

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// counter answers each request with the number of objects in its snapshot of things. %[1]s is its name, %[2]s the namespace.
const counter = `#!/bin/bash
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes: [{name: things, apiVersion: %[1]s.%[2]s.example.com/v1, kind: Thing}]
kubernetesValidating:
- name: %[1]s.%[2]s.example.com
  includeSnapshotsFrom: [things]
  labelSelector: {matchLabels: {reviewed: %[1]s}}
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
kubernetesMutating:
- name: %[1]s.%[2]s.example.com
  includeSnapshotsFrom: [things]
  labelSelector: {matchLabels: {reviewed: %[1]s}}
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE]}]
kubernetesCustomResourceConversion:
- name: up
  crdName: boxes.%[1]s.%[2]s.example.com
  includeSnapshotsFrom: [things]
  conversions: [{fromVersion: v1, toVersion: v2}]
END
  exit
fi
seen=$(jq '.[0].snapshots.things | length' "$BINDING_CONTEXT_PATH")
case $(jq -r '.[0].type' "$BINDING_CONTEXT_PATH") in
Validating) echo "{\"allowed\": false, \"message\": \"%[1]s sees $seen\"}" >"$VALIDATING_RESPONSE_PATH";;
Mutating)
  patch=$(echo '[{"op": "add", "path": "/metadata/annotations", "value": {"sees": "%[1]s sees '$seen'"}}]' | base64 -w0)
  echo "{\"allowed\": true, \"patch\": \"$patch\"}" >"$VALIDATING_RESPONSE_PATH";;
Conversion)
  jq --arg sees "%[1]s sees $seen" '{convertedObjects: [.[0].review.request.objects[] | .apiVersion |= sub("/v1$"; "/v2") | .sees = $sees]}' \
    "$BINDING_CONTEXT_PATH" >"$CONVERSION_RESPONSE_PATH";;
*) echo "%[1]s is synchronized";;
esac
`

// A policy is not off because a kind is missing: a hook whose snapshot cannot be filled, because its kind or a permission is missing, answers
// reviews and conversions with an empty one. Its events wait. When the kind or the permission comes, the snapshot is filled.
func TestMissingKindsHoldUpNoRequest(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	ns, hooks := cluster.Namespace(t), t.TempDir()
	names := []string{"missing", "forbidden", "later"}
	definition := func(plural, kind, name string, versions ...string) string {
		var list []string
		for i, v := range versions {
			list = append(list, fmt.Sprintf(`{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object,
  x-kubernetes-preserve-unknown-fields: true}}}`, v, i == 0))
		}
		return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[3]s.%[4]s.example.com},
  spec: {group: %[3]s.%[4]s.example.com, scope: Cluster, names: {plural: %[1]s, kind: %[2]s}, versions: [%[5]s]}}
`, plural, kind, name, ns, strings.Join(list, ", "))
	}
	define := func(crd, object string, name string) {
		t.Helper()
		cluster.KubectlInput(t, crd, "apply", "-f", "-")
		cluster.Kubectl(t, "wait", "--for=condition=Established", "crd/"+name, "--timeout=60s")
		for late := time.Now().Add(test.Patience); ; { // it is served a little later
			out, err := cluster.TryKubectl(object, "create", "-f", "-")
			if err == nil {
				break
			}
			if time.Now().After(late) {
				t.Fatal(out)
			}
		}
		t.Cleanup(func() { cluster.Kubectl(t, "delete", "crd", name) })
	}
	box := func(name string) { // served in v1, stored; read in v2
		crd := "boxes." + name + "." + ns + ".example.com"
		define(definition("boxes", "Box", name, "v1", "v2"),
			fmt.Sprintf("{apiVersion: %s.%s.example.com/v1, kind: Box, metadata: {name: x}}", name, ns), crd)
	}
	thing := func(name string) {
		define(definition("things", "Thing", name, "v1"),
			fmt.Sprintf("{apiVersion: %s.%s.example.com/v1, kind: Thing, metadata: {name: x}}", name, ns), "things."+name+"."+ns+".example.com")
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(hooks, name), fmt.Appendf(nil, counter, name, ns), 0o755); err != nil {
			t.Fatal(err)
		}
		box(name)
	}
	thing("forbidden")
	grant := func(role, rules string) {
		t.Helper()
		manifest := fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{kind: User, name: alice}]}
`, role, rules)
		cluster.KubectlInput(t, manifest, "apply", "-f", "-")
		t.Cleanup(func() { cluster.Kubectl(t, "delete", "clusterrole/"+role, "clusterrolebinding/"+role) })
		cluster.UntilRoles(t, "alice", ns, manifest)
	}
	things := func(name string) string {
		return fmt.Sprintf("{apiGroups: [%s.%s.example.com], resources: [things], verbs: [get, list, watch]}", name, ns)
	}
	grant(ns+"-operator", `{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch, patch]},
  {apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: ["*"]}, `+things("later"))

	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: cluster.UserKubeconfig,
		Args: []string{"--validating-webhook-configuration-name", ns}})
	answers := func(name string, seen int) {
		t.Helper()
		want := fmt.Sprintf("%s sees %d", name, seen)
		object := func(kind string) string {
			return fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: x, namespace: %s, labels: {reviewed: %s}}}`, kind, ns, name)
		}
		for what, ask := range map[string]func() (string, error){
			"validating": func() (string, error) {
				return cluster.TryKubectl(object("ConfigMap"), "create", "--dry-run=server", "-f", "-")
			},
			"mutating": func() (string, error) {
				return cluster.TryKubectl(object("Secret"), "create", "--dry-run=server", "-o", "yaml", "-f", "-")
			},
			"conversion": func() (string, error) {
				return cluster.TryKubectl("", "get", "boxes.v2."+name+"."+ns+".example.com", "x", "-o", "yaml")
			},
		} {
			for late := time.Now().Add(test.Patience); ; {
				out, err := ask()
				if strings.Contains(out, want) {
					break
				}
				if time.Now().After(late) {
					t.Fatalf("%s of %s: %s, %v", what, name, out, err)
				}
			}
		}
	}
	for _, name := range names {
		answers(name, 0)
	}
	ready := op.Page("/readyz")
	for _, want := range []string{
		`hook "missing" waits: binding "things": the API server knows no kind, plural or short name "Thing"`,
		`hook "forbidden" waits: binding "things": no permission to list things.forbidden.` + ns + `.example.com`,
		`hook "later" waits: binding "things": the API server knows no kind, plural or short name "Thing"`,
	} {
		if !strings.HasPrefix(ready, "ok\n") || !strings.Contains(ready, want) {
			t.Errorf("/readyz lacks %q:\n%s", want, ready)
		}
	}
	if list := op.Page("/metrics"); !strings.Contains(list, `shell_operator_troubles{hook="missing",kind="watch"} 1`) {
		t.Error("the missing kind is no trouble")
	}
	synchronized := func(records []testenv.Record, name string) bool {
		return slices.ContainsFunc(records, func(r testenv.Record) bool { return r.Has(name + " is synchronized") })
	}
	for _, name := range names {
		if synchronized(op.Records(), name) {
			t.Errorf("%s is synchronized without its kind", name)
		}
	}
	thing("later")
	grant(ns+"-things", things("forbidden"))
	for _, name := range names[1:] {
		answers(name, 1)
		op.Until(name, func(all []testenv.Record) bool { return synchronized(all, name) })
	}
	answers("missing", 0)
}

// guard denies every review, and waits for the snapshot of a kind that is there.
const guard = `#!/bin/sh
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes: [{name: maps, apiVersion: v1, kind: %[2]s, namespace: {nameSelector: {matchNames: [%[1]s]}}, executeHookOnEvent: []}]
kubernetesValidating:
- name: guard.%[1]s.example.com
  includeSnapshotsFrom: [maps]
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
END
  exit
fi
echo '{"allowed": false, "message": "guarded"}' >$VALIDATING_RESPONSE_PATH
`

// Restarts and a reload at 50 reviews a second, with a list that takes its time and then with a kind that is missing: no request passes
// unreviewed, because a registered webhook stays. Registrations by URL, as here, are removed when the operator ends by itself, so it is killed.
func TestGuardedThroughRestarts(t *testing.T) {
	t.Parallel()
	cluster := testenv.Shared(t)
	ns, hooks := cluster.Namespace(t), t.TempDir()
	gateway, slowly := testenv.NewGateway(t, cluster.Kubeconfig, 1)
	install := func(kind string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "guard")
		err := os.WriteFile(path, fmt.Appendf(nil, guard, ns, kind), 0o755)
		if err == nil {
			err = os.Rename(path, filepath.Join(hooks, "guard"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install("ConfigMap")
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
	asking.Go(func() {
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				asking.Go(func() {
					got := ask(ctx)
					mu.Lock()
					defer mu.Unlock()
					answers[got]++
				})
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range 2 {
		gateway.Make(testenv.Trouble{})
		if i == 1 {
			install("MissingKind") // a reload
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
