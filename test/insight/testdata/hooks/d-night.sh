#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<'YAML'
configVersion: v1
onStartup: 5
schedule:
- {name: once a year, crontab: "0 3 1 1 *", queue: spare}
settings:
  executionMinInterval: 1s
  executionBurst: 5
YAML
	exit
fi
printf '\033]0;owned\007good night\n'
