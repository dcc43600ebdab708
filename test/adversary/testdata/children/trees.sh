#!/bin/sh
# A Tree has a ConfigMap for each branch, in two namespaces: a set with a finalizer, because members in the other namespace are not collected.
# It adopts the ConfigMap "adopted", keeps "kept", and has a Leaf, whose CRD may be missing.
if [ "$1" = --config ]; then
  cat <<YAML
configVersion: v1
kubernetes:
- name: trees
  apiVersion: example.com/v1
  kind: Tree
  namespace: {nameSelector: {matchNames: [$NS]}}
  finalizer: $NS.example.com/tree
  executeHookOnEvent: [Added, Modified, Deleting]
  initialObjects: added
  queue: {name: trees, key: object, concurrency: 4}
  conditions: Ready
YAML
  exit
fi
jq -r '.[] | "\(.watchEvent // .type) \(.object.metadata.name) \(.object.metadata.uid)"' "$BINDING_CONTEXT_PATH" >>"$CONTEXTS"
jq -c --arg ns "$NS" 'last | .object as $tree | {metadata: {namespace: $ns}} as $here
  | def map_of($name; $namespace): {apiVersion: "v1", kind: "ConfigMap", metadata: {name: $name, namespace: $namespace},
      data: {color: ($tree.spec.color // "green"), label: ($tree.metadata.labels.season // "none")}};
  {operation: "Sync", set: "tree", allowEmpty: true, force: true,
   owner: {apiVersion: "example.com/v1", kind: "Tree", namespace: $ns, name: $tree.metadata.name, uid: $tree.metadata.uid},
   objects: (if .watchEvent == "Deleting" then [] else
     [$tree.spec.branches[]? | map_of(.; $ns), map_of(.; $ns + "-2")]
     + [select($tree.spec.leaf) | {apiVersion: "\($ns).example.com/v1", kind: "Leaf", metadata: {name: $tree.metadata.name, namespace: $ns}}]
     end)}' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
