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

race=
if [[ " $* " == *' -race '* ]]; then
	race=-race
else
	echo 'there is no C compiler: the tests run without the race detector' >&2
fi
# Built once: each of twenty test programs would link its own.
export TESTOPERATOR=$dir/shell-operator
go build $race -o "$TESTOPERATOR" ./cmd/shell-operator

# A program with the race detector sleeps for a second before it exits, to see races of what still runs then. Nothing of
# ours does: Run returns when all has ended, and a goroutine that is left behind fails its test.
export GORACE=${GORACE:-atexit_sleep_ms=0}
# Tests wait for leases, delays and control planes more than they compute, so there are more of them than processors.
processors=$(getconf _NPROCESSORS_ONLN)
export TESTTOLD=$dir/told
mkdir "$TESTTOLD"
TESTCLUSTER=required TESTCLUSTER_DIR=$dir/cluster \
	go test -count=1 -p $((processors + 1)) -parallel $((processors * 2)) "$@" ./...
# What pages quote has been told by operators of these tests.
go test -count=1 -tags told -run TestTold ./docs
# What makes the static image is tested with its module.
(cd tools && go test -count=1 "$@" ./...)
