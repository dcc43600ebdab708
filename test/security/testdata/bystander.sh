#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [NAMESPACE]}}, nameSelector: {matchNames: [small]}}]}'
  exit
fi
echo "the other hook has run"
