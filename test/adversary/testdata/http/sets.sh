#!/bin/sh
# PUT /set makes the set "shared" of ConfigMaps with these names, on any replica.
if [ "$1" = --config ]; then
  echo '{configVersion: v1, http: [{name: set, method: PUT, path: /set}]}'
  exit
fi
jq -c --arg ns "$NS" '.[0].request.body as $body | ($body | if type == "string" then fromjson else . end) as $names |
  {operation: "Sync", set: "shared", allowEmpty: true, objects: [$names[] |
    {apiVersion: "v1", kind: "ConfigMap", metadata: {name: ., namespace: $ns}, data: {of: ($names | join(" "))}}]}' \
  "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
echo '{"status": 200, "body": "made"}' >"$HTTP_RESPONSE_PATH"
