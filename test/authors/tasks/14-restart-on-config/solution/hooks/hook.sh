#!/bin/sh
set -eu
if [ "${1:-}" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  labelSelector: {matchExpressions: [{key: config, operator: Exists}]}
  jqFilter: '.metadata | {name, namespace, config: .labels.config}'
  keepFullObjectsInMemory: false
  executeHookOnSynchronization: false
  executeHookOnEvent: []
- name: configs
  apiVersion: v1
  kind: ConfigMap
  jqFilter: '{name: .metadata.name, namespace: .metadata.namespace, version: .data.version}'
  executeHookOnSynchronization: false
  executeHookOnEvent: [Modified]
  includeSnapshotsFrom: [deployments]
YAML
  exit
fi
jq '.[] | select(.type == "Event") | .filterResult as $config | .snapshots.deployments[].filterResult
  | select(.namespace == $config.namespace and .config == $config.name)
  | {operation: "MergePatch", apiVersion: "apps/v1", kind: "Deployment", namespace, name, ignoreMissingObject: true,
     mergePatch: {spec: {template: {metadata: {annotations: {"config-version": $config.version}}}}}}' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
