#!/bin/sh
# Reports every minute whether the platform matches its ClusterConfiguration.
#
# WATCH_NAMESPACE        where the object is; "default" when it is empty
# CLUSTER_CONFIGURATION  its name; "cluster" when it is empty
# CHECK_CRONTAB          when to check; every minute when it is empty
set -eu

if [ "${1-}" = --config ]; then
  cat <<EOF
schedule:
- name: every-minute
  crontab: "${CHECK_CRONTAB:-*/1 * * * *}"
  allowFailure: true
EOF
  exit 0
fi

# One check handles any number of merged ticks.
jq -e 'any(.[]; .binding == "every-minute")' "$BINDING_CONTEXT_PATH" >/dev/null || exit 0

namespace=${WATCH_NAMESPACE:-default}
name=${CLUSTER_CONFIGURATION:-cluster}
found=$(kubectl -n "$namespace" get clusterconfigurations.example.com "$name" --ignore-not-found -o json)
printf '%s\n' "${found:-null}" | jq -r --arg name "$name" '
  "Check: ClusterConfiguration \u0027\($name)\u0027 "
  + if . == null then "does not exist"
    elif .status.observedGeneration == .metadata.generation then
      "is installed with " + (.status.components | if . == [] then "no components" else join(", ") end)
    else "waits for its installation"
    end
'
