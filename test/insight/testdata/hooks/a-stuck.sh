#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<'YAML'
configVersion: v1
kubernetes:
- name: namespaces
  kind: Namespace
  nameSelector: {matchNames: [kube-system]}
  queue: stuck
  waitForSynchronization: false
  keepFullObjectsInMemory: false
  jqFilter: .metadata.name
YAML
	exit
fi
echo "the disk is full" >&2
exit 3
