#!/bin/sh
# What the Roles must not permit.
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: MergePatch, kind: Pod, apiVersion: v1, namespace: bank, name: web, ignoreMissingObject: true, mergePatch: {metadata: {labels: {seen: "yes"}}}}' >"$KUBERNETES_PATCH_PATH"
