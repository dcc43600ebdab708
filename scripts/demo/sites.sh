#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
kubernetes:
- name: sites
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [default]}}
  labelSelector: {matchLabels: {site: "yes"}}
  initialObjects: added
  jqFilter: .data
YAML
}

__on_kubernetes::sites() {
  context::jq 'select(.watchEvent != "Deleted") | .object | .metadata.name as $site | .data.pages // "" | split(" ")[] |
    {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "\($site)-\(.)"}, data: {title: .}}' |
    kubernetes::sync pages --owner "$(context::get object)" --allow-empty
}

hook::run "$@"
