#!/bin/sh
# It denies every object that it reviews. Its configuration has the place for more bindings.
if [ "$1" = --config ]; then
  echo '{configVersion: v1, $MORE kubernetesValidating: [{name: $NAME.example.com, namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}},
    rules: [{apiGroups: [""], apiVersions: [v1], resources: [$RESOURCE], operations: [CREATE]}]}]}'
  exit
fi
if [ "$(jq -r '.[0].binding' "$BINDING_CONTEXT_PATH")" = onStartup ]; then test -e "$PREPARED"; exit; fi
echo '{"allowed": false, "message": "denied by $NAME"}' >$VALIDATING_RESPONSE_PATH
