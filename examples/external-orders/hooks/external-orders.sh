#!/usr/bin/env bash
# Pushes each Order to a shop that fails at random, and asks it again until the order has been shipped.
#
# SHOP_URL  the address of the shop, WATCH_NAMESPACE the namespace of the Orders, POLL_INTERVAL the time between two requests
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<YAML
configVersion: v1
settings:
  retry: {minDelay: 500ms, maxDelay: 1m, limit: 8} # then the task is parked
kubernetes:
- name: orders
  apiVersion: example.com/v1
  kind: Order
  namespace: {nameSelector: {matchNames: ["${WATCH_NAMESPACE:-default}"]}}
  executeHookOnEvent: [Added, Modified]
  initialObjects: added
  jqFilter: "[.metadata.namespace, .metadata.name, .metadata.uid, (.spec | tojson)]" # not the status
  keepFullObjectsInMemory: false
  queue: {name: orders, key: object, concurrency: 8}
  conditions: Accepted # whether the last request has succeeded
YAML
}

__on_kubernetes::orders() { # an event or a requeue: the request is the same, because the shop knows orders by their uid
  local namespace name uid spec reply state code
  { read -r namespace && read -r name && read -r uid && read -r spec; } < <(context::jq -r '.filterResult[]')
  reply=$(curl -sS --max-time 60 -w '\n%{http_code}' -X PUT --data-raw "$spec" "$SHOP_URL/orders/$uid") || true
  state=${reply%%$'\n'*} code=${reply##*$'\n'}
  run::message "the shop answers $code: $state"
  case $code:$state in
  200:accepted | 200:shipped) echo "Order $namespace/$name: $state" ;;
  422:*) run::give_up "the shop rejects the order: $state" && exit 1 ;;
  *) echo "Attempt $HOOK_ATTEMPT for order $namespace/$name: the shop answers $code" >&2 && exit 1 ;;
  esac
  kubernetes::patch order "$name" -n "$namespace" --api-version example.com/v1 --subresource status "{\"status\": {\"state\": \"$state\"}}"
  [[ $state == shipped ]] || run::requeue_after "${POLL_INTERVAL:-30s}"
}

hook::run "$@"
