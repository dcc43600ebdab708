#!/usr/bin/env bash
# Runs all tests with one control plane for all packages. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/test-XXXXXX")
trap 'rm -rf "$dir"' EXIT

race=
if [[ " $* " == *' -race '* ]]; then
	race=-race
else
	echo 'there is no C compiler: the tests run without the race detector' >&2
fi
# Built once, instead of by each test program.
export TESTOPERATOR=$dir/shell-operator
go build $race -o "$TESTOPERATOR" ./cmd/shell-operator
# Beside the operator, where it searches the trimmed kubectl.
ln -s "$PWD/bin/kubectl-trimmed" "$dir/kubectl-trimmed"

# A program with the race detector sleeps for a second before it exits, to find races of goroutines that still run. Ours have
# none: Run returns when all have ended, and a leaked goroutine fails its test.
export GORACE=${GORACE:-atexit_sleep_ms=0}
packages=$(go list ./...)
# The tests of the benchmarks are part of make long.
[[ ${LONG:-} ]] || packages=$(grep -v '/bench$' <<<"$packages")
# Without the symbols of debuggers, which take a third of the time of linking. Races are reported with lines nevertheless.
link=-ldflags='-s -w'
# Tests wait for leases, delays and control planes more than they compute, so there are more of them than processors. The
# packages that take longest start first, and may take thirty minutes where a machine is very busy.
processors=$(getconf _NPROCESSORS_ONLN)
scripts/with-cluster.sh bin/testcluster \
	go test -count=1 "$link" -timeout "$([[ ${LONG:-} ]] && echo 4h || echo 30m)" -p $((processors * 2)) -parallel $((processors * 2)) "$@" ./test/... ./examples ./internal/source/... $packages
# Without the race detector, for which all libraries of the tools would be compiled again.
(cd tools && go test -count=1 ./...)
(cd kubectl && go test -count=1 ./...)
