#!/usr/bin/env bash
# Rolls a Deployment out when its ConfigMaps change: a checksum of their data is an annotation of its Pods.
#
# WATCH_NAMESPACE  the namespace of the ConfigMaps and Deployments; "default" when it is empty
source "${SHELL_LIB:-/shell_lib.sh}"

# A ConfigMap names its Deployment in the label example.com/config-of. Both kinds are in one group: after any change
# the same handler compares the actual with the desired state. The filters drop all changes except data and checksums.
__config__() {
  local namespace=${WATCH_NAMESPACE:-default}
  cat <<EOF
configVersion: v1
kubernetes:
- name: configmaps
  group: config-checksum
  apiVersion: v1
  kind: ConfigMap
  namespace:
    nameSelector:
      matchNames: ["$namespace"]
  labelSelector:
    matchExpressions:
    - {key: example.com/config-of, operator: Exists}
  jqFilter: |
    {deployment: .metadata.labels["example.com/config-of"], content: [.metadata.name, .data // {}, .binaryData // {}]}
  keepFullObjectsInMemory: false
- name: deployments
  group: config-checksum
  apiVersion: apps/v1
  kind: Deployment
  namespace:
    nameSelector:
      matchNames: ["$namespace"]
  jqFilter: |
    {namespace: .metadata.namespace, name: .metadata.name,
     checksum: .spec.template.metadata.annotations["example.com/config-checksum"]}
  keepFullObjectsInMemory: false
EOF
}

# deployments prints a line for each Deployment that has ConfigMaps: namespace, name, the current checksum, and the data to
# compute the desired one.
deployments() {
  context::jq -r '
    .snapshots as $found
    | $found.deployments[].filterResult as $deployment
    | [$found.configmaps[].filterResult | select(.deployment == $deployment.name) | .content]
    | select(. != [])
    | "\($deployment.namespace) \($deployment.name) \($deployment.checksum // "none") \(tojson)"
  '
}

__on_group::config-checksum() {
  local namespace name checksum content sum
  deployments | while read -r namespace name checksum content; do
    sum=$(printf '%s' "$content" | sha256sum)
    sum=${sum%% *}
    if [[ $sum != "$checksum" ]]; then
      echo "Deployment '$name' gets a new configuration"
      kubernetes::patch Deployment "$name" --api-version apps/v1 --namespace "$namespace" --ignore-missing \
        "{\"spec\": {\"template\": {\"metadata\": {\"annotations\": {\"example.com/config-checksum\": \"$sum\"}}}}}"
    fi
  done
}

hook::run "$@"
