#!/usr/bin/env bash
source "${SHELL_LIB:-/shell_lib.sh}"

__config__() {
  cat <<'YAML'
configVersion: v1
kubernetes:
- name: apps
  apiVersion: example.com/v1
  kind: App
  executeHookOnEvent: [Added]
  initialObjects: added
  queue: {name: apps, key: object}
  retry: {limit: 3}
YAML
}

__on_kubernetes::apps() {
  local name status=0
  name=$(context::get object.metadata.name)
  deploy "$name" || status=$?
  if ((status == 2)); then
    run::give_up "the App $name is wrong"
  fi
  return "$status"
}

hook::run "$@"
