#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetesValidating: [{name: v.example.com, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE],
    resources: [configmaps], scope: Namespaced}]}]}'
  exit
fi
echo '{"allowed": true}' >"$VALIDATING_RESPONSE_PATH"
