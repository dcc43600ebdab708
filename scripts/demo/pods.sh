#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: Pod, executeHookOnEvent: [Added]}]}'
  exit
fi
jq -r '.[] | select(.type == "Event") | "Pod \(.object.metadata.name) added"' "$BINDING_CONTEXT_PATH"
