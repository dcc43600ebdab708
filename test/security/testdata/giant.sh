#!/bin/sh
# It fails until a file exists. It writes the size of its contexts in each attempt, and the numbers that it was given in a run that
# succeeds.
if [ "$1" = --config ]; then cat <<'YAML'
configVersion: v1
settings: {contextsPerRun: 0}
kubernetes: [{name: maps, kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [Modified], namespace: {nameSelector: {matchNames: [NAMESPACE]}}, nameSelector: {matchNames: [giant]}}]
YAML
exit; fi
wc -c <"$BINDING_CONTEXT_PATH" >>"$RESULTS/sizes"
[ -e "$RESULTS/mended" ] || exit 1
jq -r '.[].object.data.n' "$BINDING_CONTEXT_PATH" >>"$RESULTS/numbers"
