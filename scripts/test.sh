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
# Built once, instead of by each test program: as users have it, and with the race detector, with which it takes more than twice the CPU time.
export TESTRELEASED=$dir/shell-operator TESTOPERATOR=$dir/shell-operator
CGO_ENABLED=0 go build -o "$TESTRELEASED" ./cmd/shell-operator
racing=$TESTRELEASED
if [[ $race ]]; then
	racing=$dir/race/shell-operator
	mkdir "$dir/race"
	go build -race -o "$racing" ./cmd/shell-operator
	ln -s "$PWD/bin/kubectl-trimmed" "$dir/race/kubectl-trimmed"
fi
# Beside the operator, where it searches the trimmed kubectl.
ln -s "$PWD/bin/kubectl-trimmed" "$dir/kubectl-trimmed"

# A program with the race detector sleeps for a second before it exits, to find races of goroutines that still run. Ours have
# none: Run returns when all have ended, and a leaked goroutine fails its test.
export GORACE=${GORACE:-atexit_sleep_ms=0}
# Tests wait for leases, delays and control planes more than they compute, so there are more of them than processors: two calls of go test.
# The packages that take longest start first, and may take thirty minutes where a machine is very busy. make vet has checked the tests.
# Without the symbols of debuggers, which take a third of the time of linking: races are reported with lines nevertheless.
# Compilers and linkers collect their garbage less often, a tenth of their time; the programs that they make do as users have them.
export GOGC=${GOGC:-400}
processors=$(getconf _NPROCESSORS_ONLN)
flags=(-exec 'env -u GOGC' -vet=off '-ldflags=-s -w' -p "$processors" -parallel $((processors * 2)) -timeout 30m -count=1)
# Tests that start programs and observe them, and those of formats and of tools for authors, have no race detector. The operator has it
# where they are about its concurrency. make long has it everywhere.
plain='/(cmd|deploy|docs|examples|sdk|test|internal/(dev|script|wire))(/|$)'
concurrency='/test/(chaos|failover|outage|reload)$'
# The tests of the benchmarks are part of make long.
except='/bench(/|$)'
if [[ ${LONG:-} ]]; then
	flags+=(-timeout 4h)
	except='^$'
	TESTOPERATOR=$racing
fi
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -Ev "$except")
unraced=$(grep -E "$plain" <<<"$packages")
others=$(grep -Ev "$plain" <<<"$packages")

status=0
go test "${flags[@]}" ${LONG:+"$@"} ./test/security ./test/conformance ./test/tutorial ./examples $(grep -Ev "$concurrency" <<<"$unraced") &
first=$!
TESTOPERATOR=$racing go test "${flags[@]}" ${LONG:+"$@"} $(grep -E "$concurrency" <<<"$unraced") || status=1
TESTOPERATOR=$racing go test "${flags[@]}" "$@" ./internal/effect/... ./internal/source/... $others || status=1
wait "$first" || status=1
# Without the race detector, for which all libraries of the tools would be compiled again.
(cd tools && go test -count=1 ./...) || status=1
(cd kubectl && go test -count=1 ./...) || status=1
exit "$status"
