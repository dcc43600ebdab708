#!/usr/bin/env bash
# Builds bin/testcluster and shows how far it is: the first time takes minutes.
set -euo pipefail
cd "$(dirname "$0")/../testcluster"

flags=$1
printf 'building the test cluster (etcd, Kubernetes, kubectl); the first time takes about five minutes on two cores\n' >&2
total=$(go list -deps . | wc -l)
start=$SECONDS
# Without a terminal, one line for every 200 packages.
if [[ -t 2 ]]; then end=$'\r' every=10; else end=$'\n' every=200; fi
go build -v -ldflags "$flags" -o ../bin/testcluster . 2> >(
	built=0
	while IFS= read -r line; do
		if [[ $line != *[[:space:]]* ]]; then
			built=$((built + 1))
			if ((built % every == 0)); then
				printf '  %d of at most %d packages, %d s: %-60.60s%s' "$built" "$total" "$((SECONDS - start))" "$line" "$end" >&2
			fi
		else
			printf '%s\n' "$line" >&2
		fi
	done
)
printf 'built bin/testcluster in %d s%50s\n' "$((SECONDS - start))" '' >&2
