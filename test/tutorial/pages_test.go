package tutorial

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	podsHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1, kubernetes: [{name: pods, kind: Pod}]}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pod-report", "namespace": "default"}}}' >"$KUBERNETES_PATCH_PATH"
`
	podsOnly = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1, kubernetes: [{name: pods, kind: Pod}]}'; exit; fi
echo fine
`
	tickHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{name: every-minute, crontab: "* * * * *"}]}'; exit; fi
echo tick
`
	stuckHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo "the disk is full" >&2
exit 1
`
	reviewHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, kubernetesValidating: [{name: a.example.com, failurePolicy: Ignore, rules: [{apiGroups: [nobody.example.com], apiVersions: [v1], resources: [things], operations: [CREATE]}]}]}'; exit; fi
`
	// wrongFilter has a mistake in line 10, notClosed one in line 12.
	wrongFilter = `#!/bin/sh
if [ "$1" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: pods
  kind: Pod
  jqFilter: |
    {name: .metadata.name,
    ip: }
YAML
  exit
fi
`
	notClosed = tickHook + "\n\n\n\n\n\n\n\nif true; then\n  echo never\n"
	addedPod  = `{"binding": "pods", "type": "Event", "watchEvent": "Added", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}}`

	// bashHook is around lines that know no library, libraryHook around those that do.
	bashHook    = "#!/usr/bin/env bash\nset -euo pipefail\nif [[ ${1:-} == --config ]]; then echo '{configVersion: v1, onStartup: 1, kubernetes: [{name: pods, kind: Pod}]}'; exit; fi\n"
	libraryHook = "#!/usr/bin/env bash\nsource \"$SHELL_LIB\"\n__config__() { echo '{configVersion: v1, kubernetes: [{name: pods, kind: Pod}]}'; }\n__main__() {\n"
)

// groupOf is what a hook reads whose binding is in a group, with the results of its filter.
func groupOf(binding string, results ...string) string {
	return fmt.Sprintf(`[{"binding": %q, "type": "Group", "groupName": "g", "snapshots": {%[1]q: [{"filterResult": %s}]}}]`,
		binding, strings.Join(results, `}, {"filterResult": `))
}

var plain = map[string]string{"hooks/pods.sh": podsOnly}

// lanes are pages that are followed one after the other. Those of one lane would disturb each other: there is one
// registration of webhooks, and a namespace can be made once.
func lanes(cluster *testenv.Cluster, server, config, receiver string) [][]page {
	all := [][]page{
		{
			{name: "how-to/develop-webhooks-on-your-machine.md", files: map[string]string{"hooks/review.sh": reviewHook}, replace: []string{"/tmp/cluster/", cluster.Dir + "/"}},
			{name: "how-to/validate-objects.md"},
			{name: "how-to/mutate-objects.md", parts: []part{{
				hook:    "#!/bin/sh\nset -e\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, kubernetesMutating: [{name: a.example.com, rules: [{apiGroups: [\"\"], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}]}'; exit; fi\n%s",
				context: `[{"binding": "a.example.com", "type": "Mutating", "review": {"request": {"uid": "1", "operation": "CREATE", "object": {"metadata": {"name": "a"}}}}}]`,
				want:    `"allowed": true`,
			}}},
			{name: "how-to/convert-versions.md"},
			{name: "how-to/answer-http-requests.md",
				before:  "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout tls.key -out tls.crt",
				replace: []string{"0.0.0.0", "127.0.0.1"},
				parts: []part{{
					hook: "#!/bin/sh\nset -e\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, http: [{name: list, method: GET, path: /shops, includeSnapshotsFrom: [shops]}]," +
						" kubernetes: [{name: shops, kind: ConfigMap, jqFilter: .data}]}'; exit; fi\n%s",
					context: `[{"binding": "list", "type": "HTTP", "request": {"id": "1", "method": "GET", "path": "/shops"}, "snapshots": {"shops": [{"filterResult": {"city": "Trier"}}]}}]`,
					want:    `\"city\": \"Trier\"`,
				}}},
		},
		{
			{name: "how-to/check-hooks.md", before: "mkdir wrong; mv hooks/wrong wrong/hooks", files: map[string]string{
				"hooks/pods.sh": podsHook, "hooks/tick.sh": tickHook, "added.json": addedPod,
				"hooks/wrong/lib/shared.sh": "shared() { :; }\n", "hooks/wrong/pods.sh": wrongFilter, "hooks/wrong/report.sh": podsOnly, "hooks/wrong/sync.sh": notClosed,
			}},
			{name: "how-to/give-the-operator-its-rights.md", files: map[string]string{"hooks/report.sh": podsOnly}},
			{name: "how-to/install-with-helm.md", before: "kubectl create namespace team-a", after: "kubectl -n my-operator get deployment my-operator-shell-operator\nkubectl -n my-operator get configmap my-operator-shell-operator-hooks"},
			{name: "how-to/run-several-replicas.md", files: plain, before: "kubectl create namespace my-operator --dry-run=client -o yaml | kubectl apply -f -",
				running: "POD_NAME=mine shell-operator --hooks-dir hooks --leader-election --namespace my-operator", until: "Hook executed successfully"},
			{name: "how-to/run-outside-a-cluster.md", files: map[string]string{"hooks/pods.sh": podsOnly, "staging.kubeconfig": config},
				replace: []string{"http://127.0.0.1:8001", server, "--kube-context staging", "--kube-context testcluster"}},
			{name: "how-to/find-out-why-a-hook-does-not-run.md", files: map[string]string{"hooks/a-stuck.sh": stuckHook},
				running: "shell-operator --hooks-dir hooks", until: "Hook failed. Will retry after delay.", replace: []string{"17-4", "1-1"}},
			{name: "how-to/build-your-own-image.md"},
			{name: "how-to/filter-with-jq.md",
				parts: []part{{hook: bashHook + "%s", context: `[{"binding": "pods", "type": "Event", "watchEvent": "Added", "filterResult": {"name": "web", "ip": "10.0.0.7"}}]`, want: "web: 10.0.0.7"}}},
			{name: "how-to/change-hooks-without-a-restart.md", files: plain},
			{name: "how-to/move-from-the-original.md", files: plain},
			{name: "how-to/protect-old-hooks-with-contextsPerRun.md", files: plain,
				parts: []part{{hook: bashHook + "%s", context: "[" + addedPod + "," + addedPod + "]", want: `"contexts": 2`}}},
			{name: "how-to/limit-and-retry-runs.md",
				parts: []part{{hook: bashHook + "lock=$(mktemp)\n(\n%skill $BASHPID\n) || [[ ! -e $lock ]] && echo cleaned\n", context: "[" + addedPod + "]", want: "cleaned"}}},
			{name: "how-to/export-metrics-from-a-hook.md", hook: "pods.sh",
				files: map[string]string{"group.json": groupOf("pods", append(slices.Repeat([]string{`{"namespace": "shop", "phase": "Pending"}`}, 2),
					slices.Repeat([]string{`{"namespace": "shop", "phase": "Running"}`}, 5)...)...)},
				before: `kubectl create namespace shop
kubectl -n shop create serviceaccount default --dry-run=client -o yaml | kubectl apply -f -
for i in 1 2 3 4 5 6 7; do kubectl -n shop run p$i --image=x; done
for i in 1 2 3 4 5; do kubectl -n shop patch pod p$i --subresource=status -p '{"status":{"phase":"Running"}}'; done`},
			{name: "how-to/change-objects-from-a-hook.md", hook: "quotas.sh", files: map[string]string{"group.json": groupOf("namespaces", `"shop"`, `"shop-test"`)}, before: "kubectl label namespace shop quota=small",
				parts: []part{
					{hook: bashHook + "name=cart replicas=3\n%s", context: "[" + addedPod + "]", want: `"replicas": 3`},
					{hook: bashHook + "name=order-17\ncharge() { true; }\n%s", context: "[" + addedPod + "]", want: `"phase": "Ready"`},
				}},
			{name: "how-to/monitor-the-operator.md", files: plain, replace: []string{"seconds=30", "seconds=1"}},
			{name: "how-to/trace-runs.md", files: map[string]string{"hooks/pods.sh": podsOnly, "token": "letmein"}, replace: []string{"127.0.0.1:4317", receiver}, until: "Hook executed successfully"},
			{name: "how-to/write-hooks-in-python.md", hook: "hook.py", after: "shell-operator --hooks-dir hooks"},
			{name: "reference/command-line.md", files: plain, running: "shell-operator --hooks-dir hooks", until: "Hook executed successfully' binding='pods'",
				replace: []string{"17-2", "1-1", "17 -o", "1 -o"}, after: "shell-operator version --config-file settings.yaml"},
			{name: "reference/python-library.md", hook: "hook.py", before: "kubectl create configmap tea --from-literal=price=2\nkubectl label configmap tea example.com/settings=yes",
				after: `PYTHONPATH=$PWD/sdk/python shell-operator --hooks-dir hooks
curl -sf --retry 9 --retry-connrefused http://127.0.0.1:9690/settings/tea | grep -F '{"price":"2"}'
curl -s http://127.0.0.1:9690/settings/coffee | grep "no settings coffee"
curl -sf -X DELETE http://127.0.0.1:9690/settings/tea
kubectl wait --for=delete configmap/tea`},
			{name: "reference/shell-library.md", replace: []string{"path/to/", ""}, after: "shell-operator lint --strict hooks",
				parts: []part{
					{hook: libraryHook + "%sdeclare -p namespace name; }\nhook::run \"$@\"\n", context: "[" + addedPod + "]", want: `namespace=\"default\"`},
					{hook: libraryHook + "namespace=default\n%s }\nhook::run \"$@\"\n", context: "[" + addedPod + "]", want: `"mode": "fast"`},
					{hook: libraryHook + "node=n1\n%s }\nhook::run \"$@\"\n", context: "[" + addedPod + "]", want: `"jqFilter": ".metadata.labels.tier`},
				}},
			{name: "../README.md", replace: []string{" | grep output= &", "", "web-7887448d46-pj7jn", "web-…"}},
		},
	}
	all[1] = append(all[1], referencePages()...)
	return all
}

// allPages are all pages that are followed.
func allPages() []page {
	all := examplePages("")
	for _, lane := range lanes(&testenv.Cluster{}, "", "", "") {
		all = append(all, lane...)
	}
	return all
}

// TestPages follows pages of docs, on one cluster.
func TestPages(t *testing.T) {
	t.Parallel() // with the tutorial
	cluster := testenv.Own(t)
	receiver := testenv.NewTraceReceiver(t, false)
	t.Run("all", func(t *testing.T) {
		server := cluster.Kubectl(t, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
		config, err := os.ReadFile(cluster.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		for i, lane := range lanes(cluster, server, string(config), receiver.Address) {
			t.Run([]string{"webhooks", "others"}[i], func(t *testing.T) {
				t.Parallel()
				for _, p := range lane {
					t.Run(strings.TrimSuffix(p.name, ".md"), func(t *testing.T) { p.follow(t, cluster) })
				}
			})
		}
	})
	receiver.Until(t, "a run of the page about traces", func(spans []testenv.Span) bool {
		return slices.ContainsFunc(spans, func(s testenv.Span) bool { return s.Name == "Run" })
	})
	configurations(t, cluster)
}

// configurations lets one operator take all configurations that pages show. Those with webhooks are only looked at: they
// would be asked about everything in the cluster.
func configurations(t *testing.T, cluster *testenv.Cluster) {
	dir := t.TempDir()
	var watching, shown int
	err := filepath.WalkDir(filepath.Join(testenv.Root(), "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, b := range pages.Blocks(string(text)) {
			if b.Kind != "yaml" || !strings.HasPrefix(b.Text, "configVersion: v1\n") || strings.Contains(b.Text, "kubernetesValidating:") {
				continue
			}
			shown++
			if strings.Contains(b.Text, "\nkubernetes:") {
				watching++
			}
			write(t, filepath.Join(dir, fmt.Sprintf("%d-%s", b.Line, strings.TrimSuffix(filepath.Base(path), ".md"))),
				"#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'YAML'\n"+b.Text+"YAML\nfi\n", 0o755)
		}
		return err
	})
	if err != nil || shown < 8 {
		t.Fatalf("%d configurations found, error %v", shown, err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	op.Until("all bindings are enabled", func(records []testenv.Record) bool {
		enabled := 0
		for _, r := range records {
			if r.Has("Kubernetes bindings for hook are enabled successfully") {
				enabled++
			}
		}
		return enabled == watching
	})
}
