#!/bin/sh
# What the Roles must not permit.
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: Delete, kind: Pod, apiVersion: v1, namespace: shop, name: web}' >"$KUBERNETES_PATCH_PATH"
