#!/bin/sh
set -eu
if [ "${1-}" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: tenants, apiVersion: v1, kind: Namespace, initialObjects: added, jqFilter: .metadata.labels.tenant}]}'
  exit
fi
jq -c '.[] | select(.watchEvent != "Deleted") | .object.metadata |
  if .labels.tenant then {operation: "Apply", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "settings", namespace: .name}, data: {tenant: .labels.tenant}}}
  else {operation: "Delete", apiVersion: "v1", kind: "ConfigMap", namespace: .name, name: "settings"} end' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
