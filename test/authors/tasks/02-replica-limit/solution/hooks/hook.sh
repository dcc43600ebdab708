#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetesValidating:
- name: replicas.example.com
  rules:
  - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}
  namespace: {labelSelector: {matchLabels: {tier: dev}}}
YAML
}

__on_validating::replicas.example.com() {
  if context::jq -e '.review.request | .object.spec.replicas > 5 and .object.spec.replicas > (.oldObject.spec.replicas // 0)' >/dev/null; then
    admission::deny 'spec.replicas: at most 5 are allowed'
  else
    admission::allow
  fi
}

hook::run "$@"
