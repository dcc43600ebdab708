#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: buckets
  apiVersion: example.com/v1
  kind: Bucket
  finalizer: example.com/bucket
  executeHookOnEvent: [Added, Deleting]
  queue: {name: buckets, key: object, concurrency: 4}
YAML
}

each() {
  context::objects '.object.metadata | "\(.namespace)-\(.name)"' | while read -r name; do
    bucketctl "$1" "$name"
  done
}

__on_kubernetes::buckets() {
  each create
}

__on_kubernetes::buckets::deleting() {
  each delete
}

hook::run "$@"
