package tutorial

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// shown is the text of a block of a page, by its beginning.
func shown(page, begins string) string {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", page))
	if err != nil {
		panic(err)
	}
	for _, b := range pages.Blocks(string(text)) {
		if strings.HasPrefix(b.Text, begins) {
			return b.Text
		}
	}
	panic(page + " has no block that begins with " + begins)
}

// writes is a hook that writes a text into the file that a variable names.
func writes(config, variable, text string) string {
	return "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '" + config + "'; exit; fi\ncat >\"$" + variable + "\" <<'TEXT'\n" + text + "TEXT\n"
}

const (
	startOnly = "{configVersion: v1, onStartup: 1}"
	podsAny   = "{configVersion: v1, kubernetes: [{name: pods, kind: Pod}]}"
	// watchShop has what the debug API can tell of: a run that fails, with a patch and output, and an idle queue.
	watchShop = `#!/bin/sh
if [ "$1" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: pods
  kind: Pod
  executeHookOnSynchronization: false
  namespace: {nameSelector: {matchNames: [debugged]}}
  jqFilter: .metadata.labels
schedule:
- {name: yearly, crontab: "@yearly", queue: spare}
YAML
  exit
fi
cat >"$KUBERNETES_PATCH_PATH" <<'YAML'
operation: MergePatch
kind: Pod
namespace: debugged
name: web-1
subresource: status
ignoreHookError: true
mergePatch: {status: {message: seen}}
YAML
echo looked
exit 3
`
	settingsPatch  = "operation: CreateOrUpdate\nobject: {apiVersion: v1, kind: ConfigMap, metadata: {name: order, namespace: default}}\n---\n"
	missingPatch   = settingsPatch + "{operation: MergePatch, apiVersion: v1, kind: ConfigMap, namespace: shop, name: settings, mergePatch: {data: {mode: fast}}}\n"
	notValidPatch  = "operation: CreateorUpdate\nobject: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}\n---\n{operation: Delete, kind: Pod, namespace: shop, name: a}\n---\n{operation: Delete, kind: Pod, namespace: shop}\n"
	brokenCounters = "{\"name\": \"queue_depth\", \"set\": 12}\n{\"name\": \"orders_seen\", \"add\": -1}\n"
)

// referencePages are pages that show what the operator answers, more than what is typed.
func referencePages() []page {
	return []page{
		{name: "reference/http-hooks.md"},
		{name: "reference/hook-metrics.md",
			files: map[string]string{
				"hooks/shop/watch.sh": writes(startOnly, "METRICS_PATH", shown("reference/hook-metrics.md", `{"name": "queue_depth"`)),
				"hooks/parts/pods.sh": writes(podsAny, "METRICS_PATH", brokenCounters), "context.json": addedPod,
			},
			before: "mv hooks/parts parts", running: "shell-operator --hooks-dir hooks", until: "Hook executed successfully"},
		{name: "reference/kubernetes-operations.md",
			files: map[string]string{
				"hooks/parts/missing/pods.sh": writes(podsAny, "KUBERNETES_PATCH_PATH", missingPatch),
				"hooks/parts/wrong/pods.sh":   writes(podsAny, "KUBERNETES_PATCH_PATH", notValidPatch), "context.json": addedPod,
			},
			before: "mv hooks/parts parts"},
		{name: "reference/http-endpoints.md",
			files:   map[string]string{"hooks/widgets.sh": "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, kubernetes: [{apiVersion: example.com/v1, kind: Widget}]}'; fi\n"},
			running: "shell-operator --hooks-dir hooks", until: "Enable Kubernetes binding for hook failed"},
		{name: "reference/debug-api.md", files: map[string]string{"hooks/shop/watch.sh": watchShop},
			before:    "kubectl create namespace debugged; kubectl -n debugged create serviceaccount default --dry-run=client -o yaml | kubectl apply -f -",
			running:   "SHELL_OPERATOR_RETRY_MIN_DELAY=2s shell-operator --hooks-dir hooks",
			until:     "Kubernetes bindings for hook are enabled successfully",
			meanwhile: "kubectl -n debugged run web-1 --image=x -l app=x", then: "Hook failed. Will retry after delay.…failedCount='2'"},
	}
}
