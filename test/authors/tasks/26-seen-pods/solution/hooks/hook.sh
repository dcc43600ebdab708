#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: pods
  apiVersion: v1
  kind: Pod
  namespace: {nameSelector: {matchNames: [shop]}}
  labelSelector: {matchExpressions: [{key: seen, operator: NotIn, values: ["yes"]}]}
  executeHookOnEvent: [Added]
  jqFilter: .metadata.name
YAML
}

__on_kubernetes::pods() {
  local name
  context::objects .filterResult | while read -r name; do
    kubernetes::patch Pod "$name" '{metadata: {labels: {seen: "yes"}}}' --namespace shop
  done
}

hook::run "$@"
