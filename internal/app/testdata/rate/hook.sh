#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, settings: {executionMinInterval: 1h, executionBurst: 2}, http: [{method: GET, path: /}]}'
fi
