#!/usr/bin/env bash
# Runs all tests with one control plane for all packages. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

# with-cluster.sh calls this script again.
if [[ ! ${TESTCLUSTER_DIR:-} ]]; then
	exec scripts/with-cluster.sh bin/testcluster scripts/test.sh "$@"
fi
export TESTCLUSTER=required

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
# Tests wait for leases, delays and control planes more than they compute, so there are more of them than processors: two calls of go test.
# The packages that take longest start first, and may take thirty minutes where a machine is very busy. make vet has checked the tests.
# Without the symbols of debuggers, which take a third of the time of linking: races are reported with lines nevertheless.
processors=$(getconf _NPROCESSORS_ONLN)
flags=(-vet=off '-ldflags=-s -w' -p "$processors" -parallel $((processors * 2)) -timeout 30m -count=1)
# These start programs and observe them: the operator, which is built with the race detector. make long has it in both.
observers='/(deploy|docs|examples|test)(/|$)'
# The tests of the benchmarks are part of make long.
except='/bench(/|$)'
if [[ ${LONG:-} ]]; then
	flags+=(-timeout 4h)
	except='^$'
fi
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -Ev "$except")
observing=$(grep -E "$observers" <<<"$packages")
others=$(grep -Ev "$observers" <<<"$packages")

status=0
go test "${flags[@]}" ${LONG:+"$@"} ./test/security ./test/conformance ./test/failover ./test/tutorial ./examples $observing &
observed=$!
go test "${flags[@]}" "$@" ./internal/effect/... ./internal/source/... ./cmd/... $others || status=1
wait "$observed" || status=1
# Without the race detector, for which all libraries of the tools would be compiled again.
(cd tools && go test -count=1 ./...) || status=1
(cd kubectl && go test -count=1 ./...) || status=1
exit "$status"
