#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: orders
  apiVersion: example.com/v1
  kind: Order
  executeHookOnEvent: [Added]
  executeHookOnSynchronization: false
  queue: {name: orders, key: object, concurrency: 8}
YAML
}

__on_kubernetes::orders() {
  ship "$(context::get object.metadata.name)"
}

hook::run "$@"
