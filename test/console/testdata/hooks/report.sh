#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	echo '{configVersion: v1, schedule: [{name: nightly, crontab: "0 3 1 1 *"}]}'
	exit
fi
echo "the report is sent"
