#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: objects, apiVersion: v1, kind: KIND, executeHookOnEvent: [Added], executeHookOnSynchronization: false}]}'
  exit
fi
if [ KIND = Secret ]; then
  echo '{"operation": "MergePatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "target",
    "mergePatch": {"data": {"n": "'$$'"}}}' >"$KUBERNETES_PATCH_PATH"
fi
