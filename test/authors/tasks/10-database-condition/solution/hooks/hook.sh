#!/bin/sh
set -eu
if [ "${1:-}" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- {name: databases, apiVersion: example.com/v1, kind: Database, jqFilter: "[.metadata.namespace, .metadata.name, .metadata.labels]", group: all}
- {name: secrets, apiVersion: v1, kind: Secret, jqFilter: "[.metadata.namespace, .metadata.name]", keepFullObjectsInMemory: false, group: all}
YAML
  exit
fi
jq '.[-1].snapshots | [.secrets[].filterResult] as $secrets | .databases[].filterResult[:2] as $id | {
  operation: "Condition", apiVersion: "example.com/v1", kind: "Database", namespace: $id[0], name: $id[1], type: "Ready", ignoreMissingObject: true
} + if $secrets | any(. == $id) then {status: "True", reason: "SecretFound"} else {status: "False", reason: "SecretMissing"} end
' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
