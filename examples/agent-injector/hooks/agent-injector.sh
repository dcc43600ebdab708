#!/usr/bin/env bash
# Injects an agent into Pods with certain annotations.
#
# AGENT_IMAGE      image of the agent; "busybox:1.37" when it is empty
# WATCH_NAMESPACE  only Pods of this namespace; all that have the label when it is empty
source "${SHELL_LIB:-/shell_lib.sh}"

# Only namespaces with the label are selected, so a bug here does not affect the rest of the cluster. If the hook
# does not respond, Pods are created unchanged.
__config__() {
  cat <<EOF
configVersion: v1
settings:
  worker: true # the hook is started once: each review is a fork
kubernetesMutating:
- name: agent-injector.example.com
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
  namespace:
    labelSelector:
      matchLabels:
        example.com/agent-injector: enabled
        ${WATCH_NAMESPACE:+kubernetes.io/metadata.name: "$WATCH_NAMESPACE"}
  failurePolicy: Ignore
  matchPolicy: Exact
  timeoutSeconds: 30
EOF
}

__on_mutating::agent-injector.example.com() {
  # The true values of Go's strconv.ParseBool.
  case $(context::get "review.request.object.metadata.annotations.'example.com/enable'") in
    1 | t | T | true | True | TRUE) ;;
    *) admission::allow && return ;;
  esac

  # One jq process for the rest. The Pod may have no name yet, only a generateName: so the agent gets both names from the
  # kubelet, by fieldRef.
  local answer
  answer=$(context::jq --arg image "${AGENT_IMAGE:-busybox:1.37}" '
    .review.request.object
    | (.metadata.annotations | {
        JOB_ADDRESS: .["example.com/job-address"],
        TARGET_CONTAINER: .["example.com/target-container"],
        JOB_NAME: .["example.com/job-name"]
      }) as $settings
    | if any($settings[]; . // "" | . == "") then {reason: "not all of its annotations are there"}
      elif any(.spec.containers[]; .name == "agent") then {reason: "it has one"}
      else {patch: [{op: "add", path: "/spec/containers/-", value: {
        name: "agent",
        image: $image,
        ports: [{name: "agent", containerPort: 9999}],
        env: ([$settings | to_entries[] | {name: .key, value}] + [
          {name: "NAMESPACE", valueFrom: {fieldRef: {fieldPath: "metadata.namespace"}}},
          {name: "POD_NAME", valueFrom: {fieldRef: {fieldPath: "metadata.name"}}}
        ])
      }}]} end
  ')
  if jq -e .patch <<<"$answer" >/dev/null; then
    jq .patch <<<"$answer" | admission::patch
    echo "A Pod gets an agent"
  else
    admission::allow
    echo "A Pod gets no agent: $(jq -r .reason <<<"$answer")"
  fi
}

hook::run "$@"
