#!/bin/bash
# It denies an object whose key another one has.
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetes: [{name: things, apiVersion: $NS.example.com/v1, kind: Thing, executeHookOnEvent: [], executeHookOnSynchronization: false}]
kubernetesValidating:
- name: unique.$NS.example.com
  includeSnapshotsFrom: [things]
  rules: [{apiGroups: [$NS.example.com], apiVersions: ["*"], resources: [things], operations: [CREATE]}]
END
  exit
fi
jq -c '.[0] | .review.request.object.spec.key as $key |
  {allowed: ($key != "probe" and [.snapshots.things[].object | select(.spec.key == $key)] == []), message: "not unique"}' \
  "$BINDING_CONTEXT_PATH" >"$VALIDATING_RESPONSE_PATH"
