#!/bin/sh
set -eu

if [ "${1:-}" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: certificates
  apiVersion: example.com/v1
  kind: Certificate
  # The existing Certificates come as Added, too: requeues do not outlive the operator.
  initialObjects: added
  executeHookOnEvent: [Added, Modified]
  # Only a change of the label runs the hook, and not the one by the hook itself.
  jqFilter: '{namespace: .metadata.namespace, name: .metadata.name, issued: (.metadata.labels.issued == "yes")}'
  ownChanges: ignore
  keepFullObjectsInMemory: false
  # A slow probe does not hold up those of other Certificates.
  queue: {name: certificates, key: object, concurrency: 8}
settings:
  # requeueAfter is for all objects of a run: one object a run.
  contextsPerRun: 1
YAML
  exit
fi

pending=
certificates=$(jq -r '
  .[].filterResult | select(.issued | not) | "\(.namespace) \(.name)"
' "$BINDING_CONTEXT_PATH")
while read -r namespace name; do
  [ -n "$name" ] || continue
  # A probe that fails has not printed "issued": it is repeated like the others.
  status=0
  output=$(probe "$name" </dev/null) || status=$?
  if [ "$status" -ne 0 ]; then
    echo "probe $name (namespace $namespace) failed with status $status" >&2
  fi
  if [ "$output" = issued ]; then
    jq -n --arg namespace "$namespace" --arg name "$name" '{
      operation: "MergePatch", apiVersion: "example.com/v1", kind: "Certificate",
      namespace: $namespace, name: $name, ignoreMissingObject: true,
      mergePatch: {metadata: {labels: {issued: "yes"}}}
    }' >>"$KUBERNETES_PATCH_PATH"
  else
    pending="$pending $namespace/$name"
  fi
done <<END
$certificates
END

if [ -n "$pending" ]; then
  jq -n --arg pending "$pending" '{requeueAfter: "5m", message: "not issued yet:\($pending)"}' >"$RUN_RESULT_PATH"
fi
