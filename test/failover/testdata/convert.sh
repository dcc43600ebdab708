#!/bin/bash
# It converts the kind, so that each start patches its CRD.
if [ "$1" = --config ]; then
  cat <<'END'
configVersion: v1
kubernetesCustomResourceConversion:
- {name: up, crdName: things.$NS.example.com, conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2, toVersion: v1}]}
END
  exit
fi
jq -c '.[0] | .review.request.desiredAPIVersion as $to | {convertedObjects: [.review.request.objects[] | .apiVersion = $to]}' \
  "$BINDING_CONTEXT_PATH" >"$CONVERSION_RESPONSE_PATH"
