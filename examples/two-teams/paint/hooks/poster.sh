#!/usr/bin/env bash
# Of the team paint: makes a poster of the catalog of the other team, which has to grant that.
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
kubernetes:
- name: catalog
  group: poster
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [shop]}}
  nameSelector: {matchNames: [catalog]}
  jqFilter: .data
YAML
}

__on_group::poster() {
  context::jq '.snapshots.catalog[0].filterResult // {} | to_entries | map("\(.key): only \(.value)!") |
    {operation: "CreateOrUpdate", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "poster", namespace: "paint"},
      data: {text: join("\n")}}}' >>"$KUBERNETES_PATCH_PATH"
}

hook::run "$@"
