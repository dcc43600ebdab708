#!/bin/sh
set -eu
if [ "${1-}" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: links, apiVersion: example.com/v1, kind: Link, jqFilter: .spec.url, initialObjects: added}]}'
  exit
fi
jq -c '.[]' "$BINDING_CONTEXT_PATH" | while read -r context; do
  case $(echo "$context" | jq -r .watchEvent) in Added | Modified) ;; *) continue ;; esac
  alive=no
  if probe "$(echo "$context" | jq -r .object.spec.url)"; then alive=yes; fi
  echo "$context" | jq -c --arg alive "$alive" '.object | {operation: "MergePatch", apiVersion, kind, namespace: .metadata.namespace, name: .metadata.name,
    mergePatch: {metadata: {labels: {alive: $alive}}}}' >>"$KUBERNETES_PATCH_PATH"
  echo 'requeueAfter: 10m' >"$RUN_RESULT_PATH"
done
