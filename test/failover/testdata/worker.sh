#!/bin/bash
# The same hook as a worker, which writes down each worker as "NAME-PID". Clients have one of their own.
source "$SHELL_LIB"
[[ -z ${HOOK_WORKER_FD:-} ]] || echo "$POD_NAME $$" >>$DIR/workers
__config__() {
  echo '{configVersion: v1, settings: {worker: true}, kubernetes: [{name: maps, kind: ConfigMap, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [$NS]}}}], http: [{name: greet, method: GET, path: /greet}]}'
}
__on_http::greet() { http::respond 200 hello; }
__on_kubernetes::maps() {
  echo "start $POD_NAME" >>$DIR/runs
  names=$(context::objects '.object.metadata.name')
  for name in $names; do echo "$name" >>$DIR/received; done
  if grep -qx slow <<<"$names" && [[ ! -e $DIR/quick ]]; then
    echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "$NS"}}}' >>"$KUBERNETES_PATCH_PATH"
    echo "slow run"
    sleep $SLOW
  fi
  echo "end $POD_NAME" >>$DIR/runs
}
hook::run "$@"
