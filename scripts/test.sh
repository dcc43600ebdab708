#!/usr/bin/env bash
# Runs all tests with one control plane for all packages. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/testcluster-XXXXXX")
ready=$dir/ready
mkfifo "$ready"
bin/testcluster start --dir "$dir/cluster" >"$ready" &
cluster=$!
stop() {
	kill -TERM "$cluster" 2>/dev/null || true
	wait "$cluster" 2>/dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
read -r line <"$ready" || true
if [[ $line != ready ]]; then
	echo 'the test cluster did not start' >&2
	exit 1
fi

if [[ " $* " != *' -race '* ]]; then
	echo 'there is no C compiler: the tests run without the race detector' >&2
fi
TESTCLUSTER=required TESTCLUSTER_DIR=$dir/cluster go test -count=1 "$@" ./...
# What makes the static image is tested with its module.
(cd tools && go test -count=1 "$@" ./...)
