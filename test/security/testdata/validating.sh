#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "kubernetesValidating": [{"name": "NAMESPACE.example.com", "failurePolicy": "Ignore",
    "namespace": {"labelSelector": {"matchLabels": {"kubernetes.io/metadata.name": "NAMESPACE"}}},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]}]}'
  exit
fi
echo '{"allowed": true}' > "$VALIDATING_RESPONSE_PATH"
