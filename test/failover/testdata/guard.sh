#!/bin/sh
# It denies every review, and waits for the snapshot of a kind that is there.
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes: [{name: maps, apiVersion: v1, kind: $KIND, namespace: {nameSelector: {matchNames: [$NS]}}, executeHookOnEvent: []}]
kubernetesValidating:
- name: guard.$NS.example.com
  includeSnapshotsFrom: [maps]
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
END
  exit
fi
echo '{"allowed": false, "message": "guarded"}' >$VALIDATING_RESPONSE_PATH
