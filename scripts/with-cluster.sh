#!/usr/bin/env bash
# Runs a command with a control plane for the tests of all packages: with-cluster.sh bin/testcluster COMMAND…
set -euo pipefail
cd "$(dirname "$0")/.."
testcluster=$1
shift

dir=$(mktemp -d "${TMPDIR:-/tmp}/testcluster-XXXXXX")
ready=$dir/ready
mkfifo "$ready"
# Memory is cheaper than CPU time: with GOGC=400, the garbage collectors of the control plane take a quarter of all that it takes.
GOGC=1600 GOMEMLIMIT=3GiB "$testcluster" start --dir "$dir/cluster" >"$ready" &
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
# The control plane comes first: on a busy machine, a request would wait for its turn until its client gives up.
TESTCLUSTER=required TESTCLUSTER_DIR=$dir/cluster TESTCLUSTER_REMOVED=1 nice "$@"
