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
  context::jq -r '.object.data.news // empty' | { grep '^+' || true; } | while read -r line; do
    announce "$name" "${line#+}" || echo "cannot announce $line" >&2
  done
}

hook::run "$@"
