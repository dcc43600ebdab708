#!/bin/sh
# Each seed gets a fruit with the next number: a run that does not see the one before takes its name, which the API server refuses.
if [ "$1" = --config ]; then
  cat <<YAML
configVersion: v1
settings: {contextsPerRun: 1}
kubernetes:
- name: seeds
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {role: seed}}
  namespace: {nameSelector: {matchNames: [$NS]}}
  executeHookOnEvent: [Added]
  initialObjects: added
  includeSnapshotsFrom: [fruits]
- name: fruits
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {role: fruit}}
  namespace: {nameSelector: {matchNames: [$NS]}}
  executeHookOnEvent: []
  executeHookOnSynchronization: false
  jqFilter: .data.seed
YAML
  exit
fi
jq -c 'last | .object.metadata.name as $seed | [.snapshots.fruits[].filterResult] | select(index($seed) == null) | (length + 1) as $n
  | {operation: "Create", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "fruit-\($n)", namespace: env.NS, labels: {role: "fruit"}},
    data: {seed: $seed}}}' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
