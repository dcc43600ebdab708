#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: sites
  apiVersion: example.com/v1
  kind: Site
  executeHookOnEvent: [Added, Modified]
  initialObjects: added
  queue: {name: sites, key: object, concurrency: 4}
YAML
}

__on_kubernetes::sites() {
  context::jq -c '.object | .metadata.name as $site | .spec.pages // {} | to_entries[] |
    {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "\($site)-\(.key)"}, data: {text: .value}}' |
    kubernetes::sync pages --owner "$(context::get object)" --allow-empty
}

hook::run "$@"
