#!/usr/bin/env bash
# Grants agents the permission to run commands in Pods. If there is a Pod with the annotation example.com/enable: "true", the default
# ServiceAccount of its namespace becomes a subject of one ClusterRoleBinding.
source "${SHELL_LIB:-/shell_lib.sh}"

role=agent-exec # the name of the ClusterRole and of its binding; rbac.yaml has it too
rules='[{"apiGroups":[""],"resources":["pods/exec"],"verbs":["create"]}]'

# The Pods are the desired state, the other two bindings the actual one. All three are in one group: after any change the
# same handler compares them. The filter treats a Pod that is being deleted as one without the annotation.
__config__() {
  cat <<EOF
configVersion: v1
kubernetes:
- name: pods
  group: agent-rbac
  apiVersion: v1
  kind: Pod
  executeHookOnEvent: [Added, Modified]
  jqFilter: |
    if .metadata.annotations["example.com/enable"] == "true" and .metadata.deletionTimestamp == null
    then .metadata.namespace else null end
  keepFullObjectsInMemory: false
- name: role
  group: agent-rbac
  apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  nameSelector:
    matchNames: ["$role"]
  jqFilter: .rules
  keepFullObjectsInMemory: false
- name: binding
  group: agent-rbac
  apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  nameSelector:
    matchNames: ["$role"]
  jqFilter: .subjects // []
  keepFullObjectsInMemory: false
EOF
}

__on_group::agent-rbac() {
  local wanted missing
  wanted=$(context::jq -c '
    [.snapshots.pods[].filterResult | values] | unique | map({kind: "ServiceAccount", name: "default", namespace: .})
  ')
  if [[ $wanted == '[]' ]]; then
    return
  fi

  if [[ $(context::snapshot role .filterResult) != "$rules" ]]; then
    echo "ClusterRole '$role' is written"
    kubernetes::create_or_update <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: $role
rules: $rules
EOF
  fi

  missing=$(context::jq -c --argjson wanted "$wanted" '$wanted - [.snapshots.binding[].filterResult[]]')
  if [[ $missing != '[]' ]]; then
    jq -r '.[] | "Namespace \u0027\(.namespace)\u0027 is added"' <<<"$missing"
    kubernetes::create_if_not_exists <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: $role
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: $role
EOF
    # The operator applies this filter to the current ClusterRoleBinding, and again after a conflict. A
    # subject added since the snapshot is not duplicated, and foreign subjects stay.
    kubernetes::patch ClusterRoleBinding "$role" --api-version rbac.authorization.k8s.io/v1 --jq \
      "(.subjects // []) as \$is | .subjects = \$is + ($missing - \$is)"
  fi
}

hook::run "$@"
