#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: tenants
  apiVersion: v1
  kind: Namespace
  group: settings
  labelSelector: {matchExpressions: [{key: tenant, operator: Exists}]}
  jqFilter: "{name: .metadata.name, tenant: .metadata.labels.tenant}"
YAML
}

__on_group::settings() {
  context::jq -c '.snapshots.tenants[].filterResult |
    {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "settings", namespace: .name}, data: {tenant}}' |
    kubernetes::sync settings --allow-empty
}

hook::run "$@"
