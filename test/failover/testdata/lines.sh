#!/bin/bash
# The hook writes a line when it starts, one for each object that it receives, and one when it ends. The ConfigMap "slow"
# makes it slow; the object of its operation then shows whether the operation was applied.
if [ "$1" = --config ]; then
  echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: ticks}],
    kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [$NS]}}}]}'
  exit
fi
if jq -e '.[0].type == "Schedule"' "$BINDING_CONTEXT_PATH" >/dev/null; then
  echo "tick $POD_NAME" >>$DIR/ticks
  exit
fi
echo "start $POD_NAME" >>$DIR/runs
names=$(jq -r '.[] | if .type == "Synchronization" then .objects[].object.metadata.name else .object.metadata.name end' "$BINDING_CONTEXT_PATH")
for name in $names; do echo "$name" >>$DIR/received; done
if grep -qx slow <<<"$names" && [ ! -e $DIR/quick ]; then
  echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "$NS"}}}' >>"$KUBERNETES_PATCH_PATH"
  echo "slow run"
  sleep $SLOW
fi
echo "end $POD_NAME" >>$DIR/runs
