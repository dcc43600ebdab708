#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: links
  apiVersion: example.com/v1
  kind: Link
  jqFilter: .spec.url
  initialObjects: added
  executeHookOnEvent: [Added, Modified]
  queue: {name: links, key: object, concurrency: 4}
YAML
}

__on_kubernetes::links() {
  local alive
  probe "$(context::get object.spec.url)"
  if [[ $? == 0 ]]; then alive=yes; else alive=no; fi
  kubernetes::patch Link "$(context::get object.metadata.name)" "{metadata: {labels: {alive: '$alive'}}}" \
    --namespace "$(context::get object.metadata.namespace)" --api-version example.com/v1
  run::requeue_after 10m
}

hook::run "$@"
