#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<YAML
configVersion: v1
settings:
  retry: {minDelay: 1h, maxDelay: 1h}
kubernetes:
- name: orders
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [$CONSOLE_NAMESPACE]}}
  labelSelector: {matchLabels: {app: order}}
  initialObjects: added
  queue: {name: orders, key: object, concurrency: 4}
  jqFilter: "{name: .metadata.name, state: .data.state}"
YAML
	exit
fi
name=$(sed -n 's/.*"name": *"\(o-[^"]*\)".*/\1/p' "$BINDING_CONTEXT_PATH" | head -n 1)
if grep -q '"state": *"unpaid"' "$BINDING_CONTEXT_PATH" && [[ ! -e $CONSOLE_DIR/paid ]]; then
	echo "$name: the bank has not confirmed the payment" >&2
	exit 1
fi
if grep -q '"state": *"slow"' "$BINDING_CONTEXT_PATH"; then
	echo "$name: packing"
	while [[ ! -e $CONSOLE_DIR/packed ]]; do sleep 0.1; done
	echo "$name: packed"
fi
echo "$name: shipped"
cat >"$KUBERNETES_PATCH_PATH" <<JSON
{"operation": "MergePatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "$CONSOLE_NAMESPACE", "name": "$name", "mergePatch": {"data": {"shipped": "yes"}}}
JSON
