#!/bin/sh
# Each ConfigMap with the label has a copy, in a set.
if [ "$1" = --config ]; then
  cat <<YAML
configVersion: v1
settings: {shardBy: object}
kubernetes:
- name: originals
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {copied: "yes"}}
  namespace: {nameSelector: {matchNames: [$NS]}}
  executeHookOnEvent: [Added, Modified]
  initialObjects: added
  queue: {name: originals, key: object, concurrency: 4}
YAML
  exit
fi
jq -c 'last | .object | {operation: "Sync", set: "copy", owner: {apiVersion: "v1", kind: "ConfigMap", name: .metadata.name,
    namespace: .metadata.namespace, uid: .metadata.uid},
  objects: [{apiVersion: "v1", kind: "ConfigMap", metadata: {name: "copy-of-\(.metadata.name)", namespace: .metadata.namespace}, data}]}' \
  "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
