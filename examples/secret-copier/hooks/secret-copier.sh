#!/usr/bin/env bash
# Copies one Secret into every namespace with the label example.com/copy-secret=enabled.
#
# SOURCE_NAMESPACE  where the Secret is; "default" when it is empty
# SOURCE_SECRET     its name, and that of the copies; "shared-secret" when it is empty
source "${SHELL_LIB:-/shell_lib.sh}"

source_namespace=${SOURCE_NAMESPACE:-default}
secret=${SOURCE_SECRET:-shared-secret}
owner=secret-copier # value of the label app.kubernetes.io/managed-by that marks our copies

# Three bindings: the source, the namespaces, the copies. As one group they cause the same kind of run,
# with the snapshots of all three. The filters keep only the compared fields.
__config__() {
  cat <<EOT
configVersion: v1
kubernetes:
- name: source
  group: secret-copier
  apiVersion: v1
  kind: Secret
  nameSelector:
    matchNames: ["$secret"]
  namespace:
    nameSelector:
      matchNames: ["$source_namespace"]
  jqFilter: '{type, data: (.data // {})}'
  keepFullObjectsInMemory: false
- name: namespaces
  group: secret-copier
  apiVersion: v1
  kind: Namespace
  labelSelector:
    matchLabels:
      example.com/copy-secret: enabled
  jqFilter: 'if .metadata.deletionTimestamp then null else .metadata.name end' # no objects can be created in a terminating namespace
  keepFullObjectsInMemory: false
- name: copies
  group: secret-copier
  apiVersion: v1
  kind: Secret
  nameSelector:
    matchNames: ["$secret"]
  labelSelector:
    matchLabels:
      app.kubernetes.io/managed-by: $owner
  jqFilter: '{namespace: .metadata.namespace, type, data: (.data // {})}'
  keepFullObjectsInMemory: false
EOT
}

# Compares the actual with the desired state, and writes operations. The operator applies them after the hook has ended:
# namespaces concurrently, and all of them again if one fails.
#
# A Secret that is missing in the snapshot may be a foreign one of that name: CreateIfNotExists does not change it.
__on_group::secret-copier() {
  context::jq -c --arg from "$source_namespace" --arg name "$secret" --arg owner "$owner" '
    def copy: {
      apiVersion: "v1", kind: "Secret",
      metadata: {name: $name, namespace: .namespace, labels: {"app.kubernetes.io/managed-by": $owner}},
      type: .source.type, data: .source.data
    };
    def delete: {operation: "Delete", apiVersion: "v1", kind: "Secret", namespace: ., name: $name};

    .snapshots
    | .source[0].filterResult as $source
    | [.namespaces[].filterResult | values | select(. != $from and $source != null)] as $wanted
    | [.copies[].filterResult | select(.namespace != $from)] as $copies
    | ($copies | map({key: .namespace, value: {type, data}}) | from_entries) as $have
    | ($copies[].namespace | select(IN($wanted[]) | not) | delete),
      # The type of a Secret cannot be changed.
      ($wanted[] | select($have[.] != null and $have[.].type != $source.type) | delete),
      ($wanted[] | select($have[.] != $source)
       | {namespace: ., $source} as $target
       | if $have[.] == null or $have[.].type != $source.type
         then {operation: "CreateIfNotExists", object: ($target | copy)}
         else {operation: "CreateOrUpdate", object: ($target | copy)}
         end)
  ' >>"$KUBERNETES_PATCH_PATH"
}

hook::run "$@"
