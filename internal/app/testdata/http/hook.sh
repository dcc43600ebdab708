#!/bin/sh
if [ "$1" = --config ]; then
  cat <<YAML
configVersion: v1
settings: {executionMinInterval: 1h, executionBurst: 100}
kubernetes:
- {name: things, apiVersion: $GROUP/v1, kind: Thing, jqFilter: .metadata.name, keepFullObjectsInMemory: false, executeHookOnSynchronization: false, executeHookOnEvent: []}
http:
- {name: things, method: GET, path: /things, includeSnapshotsFrom: [things]}
- {name: effects, method: POST, path: "/effects/{name}"}
- {name: hang, method: GET, path: /hang}
- {name: late, method: GET, path: /late, timeout: 500ms}
- {name: broken, method: GET, path: /broken}
- {name: fails, method: GET, path: /fails}
YAML
  exit
fi
answer() { cat >"$HTTP_RESPONSE_PATH"; }
case $(jq -r '.[0].binding' "$BINDING_CONTEXT_PATH") in
things) jq -c '{headers: {"X-From": ["hook", "two"]}, json: [.[0].snapshots.things[].filterResult]}' "$BINDING_CONTEXT_PATH" | answer ;;
effects)
  jq -c --arg ns "$NS" '{operation: "Create", object: {apiVersion: "v1", kind: "ConfigMap", metadata: {namespace: $ns, name: .[0].request.pathValues.name}}}' \
    "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
  echo '{"name": "asked_total", "action": "add", "value": 1}' >"$METRICS_PATH"
  echo '{"status": 201, "body": "made"}' | answer
  ;;
hang | late)
  # A child that does not notice when only the hook is ended.
  sleep 1000 &
  echo "sleeper $!"
  wait
  ;;
broken) echo '{"status": 200, "body": "secret", "header": {}}' | answer ;;
fails) echo secret >&2 && exit 3 ;;
esac
