#!/bin/bash
# The hook changes an object with the name of its replica. While there is a file "many", it wants many more changes, which take longer than
# a Lease.
if [ "$1" = --config ]; then
  echo '{configVersion: v1, schedule: [{crontab: "* * * * * *"}]}'
  exit
fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap",
  "metadata": {"name": "patched-by-'$POD_NAME'", "namespace": "$NS"}, "data": {"run": "'$RANDOM$RANDOM'"}}}' >"$KUBERNETES_PATCH_PATH"
if [ -e $DIR/many ]; then
  for i in {1..500}; do
    echo '{"operation": "MergePatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "$NS", "name": "many-'$i'",
      "mergePatch": {"data": {"a": "b"}}, "ignoreMissingObject": true}'
  done >>"$KUBERNETES_PATCH_PATH"
fi
