#!/bin/bash
# A hook whose set of ConfigMaps has one for each object of an optional kind.
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes:
- {name: owner, apiVersion: v1, kind: ConfigMap, group: g, nameSelector: {matchNames: [owner]}, namespace: {nameSelector: {matchNames: [$NS]}}}
- {name: things, apiVersion: $NS.example.com/v1, kind: Thing, group: g, optional: true}
END
  exit
fi
jq -r '.[0].snapshots | "saw \(.owner[0].object.data.touched) with \(.things | length) things"' "$BINDING_CONTEXT_PATH"
jq -c '.[0].snapshots | {operation: "Sync", set: "children", allowEmpty: true, owner: (.owner[0].object | {apiVersion, kind, namespace: .metadata.namespace,
  name: .metadata.name, uid: .metadata.uid}), objects: [.things[].object | {apiVersion: "v1", kind: "ConfigMap", metadata: {name: ("child-" + .metadata.name)}}]}' \
  "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
