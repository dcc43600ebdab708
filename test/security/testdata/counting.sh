#!/bin/sh
# It denies, counts what it denies, and writes an object with the name of the user.
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "kubernetesValidating": [{"name": "NAMESPACE.example.com",
    "namespace": {"labelSelector": {"matchLabels": {"kubernetes.io/metadata.name": "NAMESPACE"}}},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}]}]}'
  exit
fi
jq -c '.[0].review.request | {operation: "CreateOrUpdate", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "denied-\(.name)", namespace: "NAMESPACE"}, data: {user: .userInfo.username}}}' $BINDING_CONTEXT_PATH > $KUBERNETES_PATCH_PATH
jq -c '.[0].review.request | {name: "denied_total", add: 1, labels: {name}}' $BINDING_CONTEXT_PATH > $METRICS_PATH
jq -c '.[0].review.request | {allowed: false, message: "\(.name) is denied"}' $BINDING_CONTEXT_PATH > $VALIDATING_RESPONSE_PATH
