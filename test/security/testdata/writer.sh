#!/bin/sh
# It writes COUNT operations of 900 kB each. The API server reads each of them and has no object for it, so etcd stays as it is.
if [ "$1" = --config ]; then cat <<'YAML'
configVersion: v1
settings: {maxFileBytes: 268435456}
kubernetes: [{name: maps, kind: ConfigMap, queue: "QUEUE", executeHookOnEvent: [], namespace: {nameSelector: {matchNames: [NAMESPACE]}}, nameSelector: {matchNames: [none]}}]
YAML
exit; fi
text=$(head -c 900000 /dev/zero | tr '\0' x)
for i in $(seq COUNT); do
  printf '{"operation": "MergePatch", "kind": "ConfigMap", "namespace": "NAMESPACE", "name": "none-%s", "ignoreMissingObject": true, "mergePatch": {"data": {"text": "%s"}}}\n' "$i" "$text"
done > "$KUBERNETES_PATCH_PATH"
