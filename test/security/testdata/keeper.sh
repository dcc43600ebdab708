#!/bin/sh
# It counts its runs in its home, and what it finds there in its config call.
if [ "$1" = --config ]; then
	echo config >>"$HOME/calls"
	echo '{configVersion: v1, onStartup: 1}'
	exit
fi
echo run >>"$HOME/calls"
cp "$HOME/calls" "$RESULTS/VERSION"
echo "$HOME" >"$RESULTS/home"
kubectl config view -o 'jsonpath={.clusters[*].cluster.server}' >"$RESULTS/server"
