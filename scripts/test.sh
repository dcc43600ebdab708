#!/usr/bin/env bash
# Runs the tests that need no control plane, and those that an API server in memory can carry. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/test-XXXXXX")
trap 'rm -rf "$dir"' EXIT
# With the packages of make build.
export TESTCLUSTER=memory CGO_ENABLED=0 GOGC=${GOGC:-400}
unset TESTCLUSTER_DIR
# What hooks call as python3 may be a script that searches the interpreter, as pyenv's, which takes longer than most hooks.
PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH

# Nothing in these runs in memory. The tests of the benchmarks are part of make long.
cluster=(test/{adversary,chaos,console,failover,kubectl,outage,security,traces})
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... |
	grep -Ev "/(bench|$(IFS='|' && echo "${cluster[*]}"))\$")
# Those with an operator, or programs that hooks call.
running=$(grep -rlE '/internal/test/(testenv|scripts)"|test\.Tools\(' --include='*_test.go' . | sed 's|^[.]\(.*\)/[^/]*$|\1$|' | sort -u)

# The operator, with the trimmed kubectl where it searches it.
export TESTRELEASED=$dir/shell-operator TESTOPERATOR=$dir/shell-operator
ln -s "$PWD/bin/memory/kubectl-trimmed" "$dir/kubectl-trimmed"
build() { go build -ldflags='-s -w' -o "$TESTRELEASED" ./cmd/shell-operator && make --no-print-directory memory; }

processors=$(getconf _NPROCESSORS_ONLN)
flags=(-json -exec 'env -u GOGC' -vet=off '-ldflags=-s -w' -p $((processors + 2)) -parallel $((processors * 2)) -timeout 30m)
{
	build >&2 & # while tests run that do not need it
	go test "${flags[@]}" "$@" $(grep -vf <(echo "$running") <<<"$packages") || true
	wait $! || { echo 'the programs cannot be built' && exit 1; }
	# Those that take longest begin.
	go test "${flags[@]}" "$@" ./test/{conformance,tutorial,ownwrites,reload} $(grep -f <(echo "$running") <<<"$packages") || true
} | scripts/report.py "${cluster[@]}"
