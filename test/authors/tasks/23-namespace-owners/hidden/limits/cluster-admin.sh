#!/bin/sh
# What the Roles must not permit.
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo '{operation: Create, object: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: owner, namespace: shop}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]}}' >"$KUBERNETES_PATCH_PATH"
