#!/usr/bin/env bash
source "$SHELL_LIB"
count=0
trap 'echo the worker ends' EXIT
export PREPARED=yes
PREPARATION
__config__() { echo '{"configVersion":"v1","onStartup":1,"settings":{"worker":true}}'; }
__main__() { eval "$COMMAND"; }
hook::run "$@"
