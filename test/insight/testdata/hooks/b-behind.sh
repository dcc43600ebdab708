#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<'YAML'
configVersion: v1
kubernetes:
- name: namespaces
  kind: Namespace
  nameSelector: {matchNames: [default]}
  queue: stuck
  waitForSynchronization: false
  executeHookOnEvent: [Deleted]
YAML
	exit
fi
