#!/bin/sh
set -eu
if [ "${1:-}" = --config ]; then
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: deployments
  apiVersion: apps/v1
  kind: Deployment
  executeHookOnSynchronization: false
  executeHookOnEvent: [Modified]
  jqFilter: '{name: "\(.metadata.namespace)/\(.metadata.name)", image: .spec.template.spec.containers[0].image}'
YAML
  exit
fi
jq -r '.[] | select(.type == "Event").filterResult | "\(.name) \(.image)"' "$BINDING_CONTEXT_PATH" >"${TMPDIR:-/tmp}/images.$$"
while read -r name image; do
  announce "$name" "$image"
done <"${TMPDIR:-/tmp}/images.$$"
rm "${TMPDIR:-/tmp}/images.$$"
