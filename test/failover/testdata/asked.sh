#!/bin/bash
# The hook beside it answers requests, with the names of all objects.
if [ "$1" = --config ]; then
  cat <<'END'
{configVersion: v1,
kubernetes: [{name: maps, kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [],
  namespace: {nameSelector: {matchNames: [$NS]}}, labelSelector: {matchLabels: {part-of: $NS}}}],
http: [{method: GET, path: /maps, includeSnapshotsFrom: [maps]}],
kubernetesValidating: [{name: maps.$NS.example.com, includeSnapshotsFrom: [maps],
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}},
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE]}]}]}
END
  exit
fi
names() { jq -c "{$1: ([.[0].snapshots.maps[].object.metadata.name] | sort | join(\" \"))$2}" "$BINDING_CONTEXT_PATH"; }
case $(jq -r '.[0].type' "$BINDING_CONTEXT_PATH") in
HTTP) names body >"$HTTP_RESPONSE_PATH" ;;
Validating) names message ', allowed: false' >"$VALIDATING_RESPONSE_PATH" ;;
esac
