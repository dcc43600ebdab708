#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	cat <<'YAML'
configVersion: v1
kubernetes:
- {name: bobbins, kind: Bobbin, apiVersion: insight.example.com/v1}
YAML
	exit
fi
