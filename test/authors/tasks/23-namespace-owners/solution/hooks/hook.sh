#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: namespaces
  apiVersion: v1
  kind: Namespace
  initialObjects: added
  executeHookOnEvent: [Added, Modified]
  labelSelector: {matchExpressions: [{key: owner, operator: Exists}]}
  jqFilter: .metadata.labels.owner
YAML
}

__on_kubernetes::namespaces() {
  context::objects .object | jq -c "{
    apiVersion: \"rbac.authorization.k8s.io/v1\", kind: \"RoleBinding\", metadata: {name: \"owner\", namespace: .metadata.name},
    roleRef: {apiGroup: \"rbac.authorization.k8s.io\", kind: \"ClusterRole\", name: \"edit\"},
    subjects: [{apiGroup: \"rbac.authorization.k8s.io\", kind: \"User\", name: .metadata.labels.owner}]}" | kubernetes::apply
}

hook::run "$@"
