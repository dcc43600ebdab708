#!/bin/sh
# Prints the name of every Pod that is added.
#
# WATCH_NAMESPACE  watch this namespace only; all namespaces when it is empty
set -eu

if [ "${1-}" = --config ]; then
  cat <<EOF
configVersion: v1
kubernetes:
- name: pods
  apiVersion: v1
  kind: Pod
  executeHookOnEvent: [Added]
EOF
  if [ -n "${WATCH_NAMESPACE-}" ]; then
    cat <<EOF
  namespace:
    nameSelector:
      matchNames: ["$WATCH_NAMESPACE"]
EOF
  fi
  exit 0
fi

# One run may have several binding contexts, so iterate over all of them:
#   Synchronization  once at the start, with all existing Pods
#   Event            later, for each Pod that is added
jq -r '
  .[]
  | if .type == "Synchronization" then .objects[].object | "Pod \u0027\(.metadata.name)\u0027 is already here"
    elif .type == "Event" then .object | "Pod \u0027\(.metadata.name)\u0027 added"
    else empty
    end
' "$BINDING_CONTEXT_PATH"
