#!/bin/sh
# It is in the middle of a run as long as the intruder works.
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: other}]}'; exit; fi
[ ! -e "$RESULTS/done" ] || exit 0
touch "$RESULTS/running"
until [ -e "$RESULTS/done" ]; do sleep 0.1; done
cat "$KUBERNETES_PATCH_PATH" "$METRICS_PATH" >"$RESULTS/changed"
echo "the other run has ended"
