#!/usr/bin/env bash
# Of the team shop: lists the prices of all products in the ConfigMap "catalog".
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
kubernetes:
- name: products
  group: catalog
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [shop]}}
  labelSelector: {matchLabels: {example.com/product: "true"}}
  jqFilter: '{(.metadata.name): .data.price}'
  keepFullObjectsInMemory: false
YAML
}

__on_group::catalog() {
  context::jq '.snapshots.products | map(.filterResult) | add // {} | {operation: "CreateOrUpdate",
    object: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "catalog", namespace: "shop"}, data: .}}' >>"$KUBERNETES_PATCH_PATH"
}

hook::run "$@"
