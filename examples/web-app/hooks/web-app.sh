#!/usr/bin/env bash
# Keeps a ConfigMap, a Deployment and, with a port, a Service for each WebApp of the namespace WATCH_NAMESPACE.
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
kubernetes:
- name: apps
  apiVersion: example.com/v1
  kind: WebApp
  namespace: {nameSelector: {matchNames: ["${WATCH_NAMESPACE:-default}"]}}
  executeHookOnEvent: [Added, Modified]
  initialObjects: added
  jqFilter: .spec # not the status
  queue: {name: apps, key: object, concurrency: 8}
YAML
}

__on_kubernetes::apps() {
  context::is_null object.metadata.deletionTimestamp || return 0 # the garbage collector deletes the objects
  context::jq '.object | {app: .metadata.name} as $labels | {name: .metadata.name, labels: $labels} as $metadata | .spec |
    {apiVersion: "v1", kind: "ConfigMap", $metadata, data: (.settings // {})},
    {apiVersion: "apps/v1", kind: "Deployment", $metadata, spec: {selector: {matchLabels: $labels}, template: {
      metadata: {$labels}, spec: {containers: [{name: "app", image, envFrom: [{configMapRef: {name: $labels.app}}]}]}}}},
    (select(.port) | {apiVersion: "v1", kind: "Service", $metadata, spec: {selector: $labels, ports: [{port}]}})' |
    kubernetes::sync app --owner "$(context::get object)"
}

hook::run "$@"
