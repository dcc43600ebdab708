#!/bin/bash
# A hook whose objects are divided: it cleans up, and makes a set for the owner that an object names.
if [ "$1" = --config ]; then
  cat <<'END'
{configVersion: v1, settings: {shardBy: $SHARDBY},
kubernetes: [{name: maps, kind: ConfigMap, queue: parts, finalizer: $NS.example.com/parts, executeHookOnEvent: [Modified, Deleting],
  namespace: {nameSelector: {matchNames: [$NS]}}, labelSelector: {matchLabels: {part-of: $NS}}}]}
END
  exit
fi
jq -r --arg shard "$HOOK_SHARD/$HOOK_SHARDS" '.[] | select(.watchEvent == "Deleting") | .object.metadata.name + " " + $shard' \
  "$BINDING_CONTEXT_PATH" >>$DIR/deleting
jq -c '.[] | select(.watchEvent == "Modified" and .object.data.owner != null).object | {operation: "Sync", set: "children",
  owner: {apiVersion: "v1", kind: "ConfigMap", namespace: .metadata.namespace, name: .data.owner, uid: .data.uid},
  objects: [{apiVersion: "v1", kind: "ConfigMap", metadata: {name: ("child-of-" + .metadata.name)}}]}' \
  "$BINDING_CONTEXT_PATH" >>"$KUBERNETES_PATCH_PATH"
