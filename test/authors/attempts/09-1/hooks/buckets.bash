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
  initialObjects: added
  executeHookOnEvent: [Added, Deleting]
  jqFilter: "{namespace: .metadata.namespace, name: .metadata.name}"
  keepFullObjectsInMemory: false
  queue: {name: buckets, key: object, concurrency: 4}
settings: {contextsPerRun: 1}
YAML
}

bucket() { context::jq -r '.filterResult | "\(.namespace)-\(.name)"'; }

__on_kubernetes::buckets::added() {
  bucketctl create "$(bucket)"
}

__on_kubernetes::buckets::deleting() {
  bucketctl delete "$(bucket)"
}

hook::run "$@"
