#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<YAML
configVersion: v1
settings:
  retry: {limit: 1}
kubernetes:
- name: invoices
  apiVersion: v1
  kind: ConfigMap
  namespace: {nameSelector: {matchNames: [$CONSOLE_NAMESPACE]}}
  labelSelector: {matchLabels: {app: invoice}}
  initialObjects: added
  queue: {name: invoices, key: object, concurrency: 2}
YAML
	exit
fi
[[ -e $CONSOLE_DIR/printer ]] && { echo "printed"; exit; }
echo "the printer is out of paper" >&2
exit 1
