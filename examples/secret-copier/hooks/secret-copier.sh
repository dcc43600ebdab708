#!/usr/bin/env bash
# Copies one Secret into every namespace with the label example.com/copy-secret=enabled.
#
# SOURCE_NAMESPACE  where the Secret is; "default" when it is empty
# SOURCE_SECRET     its name, and that of the copies; "shared-secret" when it is empty
set -euo pipefail

source_namespace=${SOURCE_NAMESPACE:-default}
secret=${SOURCE_SECRET:-shared-secret}
owner=secret-copier # value of the label app.kubernetes.io/managed-by that marks our copies

# Three things can change: the source, the namespaces, the copies. Being one group they start the same kind of run,
# which sees all three. The filters keep the little that is compared.
config() {
  cat <<EOF
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
  jqFilter: 'if .metadata.deletionTimestamp then null else .metadata.name end' # nothing can be made in a dying one
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
EOF
}

# plan compares what is with what should be and prints what to do: lines of a verb and a namespace. All contexts of a
# run carry the same snapshots, so it does not matter how many there are, or which one is asked.
plan() {
  jq -r --arg from "$source_namespace" '
    map(.snapshots | values) | last
    | .source[0].filterResult as $source
    | [.namespaces[].filterResult | values | select(. != $from and $source != null)] as $wanted
    | [.copies[].filterResult | select(.namespace != $from)] as $copies
    | ($copies | map({key: .namespace, value: {type, data}}) | from_entries) as $have
    | ($wanted[]
       | if $have[.] == $source then empty
         elif $have[.] == null or $have[.].type == $source.type then "put \(.)"
         else "delete \(.)", "put \(.)" # the type of a Secret cannot be changed
         end),
      ($copies[].namespace | select(IN($wanted[]) | not) | "delete \(.)")
  ' "$BINDING_CONTEXT_PATH"
}

# copy prints the copy for a namespace.
copy() {
  jq -c --arg namespace "$1" --arg name "$secret" --arg owner "$owner" '
    map(.snapshots | values) | last | .source[0].filterResult
    | {
        apiVersion: "v1",
        kind: "Secret",
        metadata: {name: $name, namespace: $namespace, labels: {"app.kubernetes.io/managed-by": $owner}},
        type,
        data
      }
  ' "$BINDING_CONTEXT_PATH"
}

# put makes the copy in a namespace, or makes it right. It asks the cluster what is there: a snapshot may be a moment
# old, and does not show a Secret of the same name that is not ours. That one stays. Secrets go to kubectl by standard
# input, where no list of processes shows them.
put() {
  local found
  found=$(kubectl -n "$1" get secret "$secret" --ignore-not-found \
    -o jsonpath='{"owner="}{.metadata.labels.app\.kubernetes\.io/managed-by}') || return
  case $found in
    '') copy "$1" | kubectl create -f - ;;
    "owner=$owner") copy "$1" | kubectl replace -f - ;;
    *) echo "Namespace '$1' has a Secret '$secret' of its own, left alone" >&2 ;;
  esac
}

delete() {
  kubectl -n "$1" delete secret "$secret" --ignore-not-found
}

if [[ ${1-} == --config ]]; then
  config
  exit
fi

# A namespace that fails does not stop the others, but the run fails in the end and is tried again.
todo=$(plan)
status=0
while read -r verb namespace; do
  case $verb in
    put) put "$namespace" || status=1 ;;
    delete) delete "$namespace" || status=1 ;;
  esac
done <<<"$todo"
exit "$status"
