#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<YAML
configVersion: v1
kubernetes:
- name: prices
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [$INSIGHT_NAMESPACE]}}
  nameSelector: {matchNames: [prices]}
  keepFullObjectsInMemory: false
  jqFilter: .data
YAML
	exit
fi
echo "<b>prices</b> have changed"
cat >"$KUBERNETES_PATCH_PATH" <<JSON
{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen", "namespace": "$INSIGHT_NAMESPACE"}, "data": {"password": "secret-value"}}}
JSON
