#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: boards
  apiVersion: v1
  kind: ConfigMap
  initialObjects: added
  executeHookOnEvent: [Added, Modified]
  labelSelector: {matchLabels: {announce: "yes"}}
  jqFilter: .data.news
  queue: {name: boards, key: object}
settings: {contextsPerRun: 1}
YAML
}

__on_kubernetes::boards() {
  local name line
  name=$(context::get object.metadata.name)
  while read -r line; do
    [[ $line == +* ]] && announce "$name" "${line#+}"
  done < <(context::jq -r '.object.data.news // empty')
}

hook::run "$@"
