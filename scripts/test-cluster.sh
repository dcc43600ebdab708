#!/usr/bin/env bash
# Runs the tests that need a control plane, or the race detector, with one control plane for all packages. With all as the first argument it
# runs the others, too. Further ones go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

# with-cluster.sh calls this script again.
if [[ ! ${TESTCLUSTER_DIR:-} ]]; then
	exec scripts/with-cluster.sh bin/testcluster scripts/test-cluster.sh "$@"
fi
export TESTCLUSTER=required

all=
if [[ ${1:-} == all ]]; then
	all=1
	shift
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/test-XXXXXX")
trap 'rm -rf "$dir"' EXIT

race=
if [[ " $* " == *' -race '* ]]; then
	race=-race
else
	echo 'there is no C compiler: the tests run without the race detector' >&2
fi
# Tests that start programs and observe them, those of formats and of tools for authors, and those of code without goroutines have no race
# detector. The operator has it where they are about its concurrency. make long has it everywhere.
plain='/(cmd|deploy|docs|examples|sdk|test|internal/(dev|jq|script|wire|hook|shard|spelling|replica/ownership|run/kubectl)|internal$)(/|$)'
concurrency='/test/(chaos|failover|outage|reload)$'
# The tests of the benchmarks are part of make long.
except='/bench(/|$)'
if [[ ${LONG:-} ]]; then except='^$'; fi
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -Ev "$except")
unraced=$(grep -E "$plain" <<<"$packages")
others=$(grep -Ev "$plain" <<<"$packages")
# The others are in make test.
if [[ ! $all ]]; then
	unraced=$(grep -f <(grep -rlE '/internal/test/(testenv|scripts)"' --include='*_test.go' . | sed 's|^[.]\(.*\)/[^/]*$|\1$|') <<<"$unraced")
fi

# All is compiled before the first test runs: on a new machine, compilers would leave tests and their control plane no time for minutes.
compile() { go list -export -deps -test "$@" >/dev/null; }
(compile $unraced && cd tools && compile ./... && cd ../kubectl && compile ./...) &
compiled=$!
# Built once, instead of by each test program: as users have it, and with the race detector, with which it takes more than twice the CPU time.
export TESTRELEASED=$dir/shell-operator TESTOPERATOR=$dir/shell-operator
CGO_ENABLED=0 go build -ldflags='-s -w' -o "$TESTRELEASED" ./cmd/shell-operator &
released=$!
racing=$TESTRELEASED
if [[ $race ]]; then
	racing=$dir/race/shell-operator
	mkdir "$dir/race"
	go build -race -ldflags='-s -w' -o "$racing" ./cmd/shell-operator
	ln -s "$PWD/bin/kubectl-trimmed" "$dir/race/kubectl-trimmed"
fi
compile $race $others
wait "$released"
wait "$compiled"
# Beside the operator, where it searches the trimmed kubectl.
ln -s "$PWD/bin/kubectl-trimmed" "$dir/kubectl-trimmed"

# What hooks call as python3 may be a script that searches the interpreter, as pyenv's, which takes longer than most hooks.
PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH

# A program with the race detector sleeps for a second before it exits, to find races of goroutines that still run. Ours have
# none: Run returns when all have ended, and a leaked goroutine fails its test.
export GORACE=${GORACE:-atexit_sleep_ms=0}
# Tests wait for leases, delays and control planes more than they compute, so there are more of them than processors: several calls of go test.
# The packages that take longest start first, and may take thirty minutes where a machine is very busy. make vet has checked the tests.
# Without the symbols of debuggers, which take a third of the time of linking: races are reported with lines nevertheless.
# Compilers and linkers collect their garbage less often, a tenth of their time; the programs that they make do as users have them.
export GOGC=${GOGC:-400}
processors=$(getconf _NPROCESSORS_ONLN)
flags=(-exec 'env -u GOGC' -vet=off '-ldflags=-s -w' -p "$processors" -parallel $((processors * 2)) -timeout 30m -count=1)
if [[ ${LONG:-} ]]; then
	flags+=(-timeout 4h)
	TESTOPERATOR=$racing
fi

status=0
# Three calls concurrently: none of them alone keeps the processors busy.
go test "${flags[@]}" -p $((processors + 1)) ${LONG:+"$@"} ./test/security ./test/conformance ./test/tutorial ./examples $(grep -Ev "$concurrency" <<<"$unraced") &
calls=($!)
TESTOPERATOR=$racing go test "${flags[@]}" ${LONG:+"$@"} ./test/failover $(grep -E "$concurrency" <<<"$unraced") &
calls+=($!)
# Without the race detector, for which all libraries of the tools would be compiled again.
(cd tools && go test -count=1 ./...) || status=1
(cd kubectl && go test -count=1 ./...) || status=1
TESTOPERATOR=$racing go test "${flags[@]}" -p $((processors + 1)) "$@" ./internal/source/... ./internal/effect/... $others || status=1
for call in "${calls[@]}"; do
	wait "$call" || status=1
done
exit "$status"
