#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: ConfigMap, namespace: {nameSelector: {matchNames: [NAMESPACE]}}, jqFilter: .data}]}'
  exit
fi
if env | grep -q pwned; then echo "in the environment"; fi
echo "arguments: $#"
grep -q pwned "$BINDING_CONTEXT_PATH" && echo "in the file"
jq -r '.[0].objects[] | select(.object.metadata.name == "data.is-data-0") | .object.data[]' "$BINDING_CONTEXT_PATH"
