#!/usr/bin/env bash
# Builds the test cluster of a version of Kubernetes and shows how far it is: the first time takes minutes. For another version
# than that of testcluster/go.mod, a go.mod is written beside the binary.
set -euo pipefail
cd "$(dirname "$0")/../testcluster"
# As the operator, kubectl and the tools: they share most packages.
export CGO_ENABLED=0
version=$1 output=$2 flags=$3

# required prints the version that testcluster/go.mod requires of a module.
required() { sed -n "s|^\t$1 \(v[^ ]*\)\$|\1|p" go.mod; }

build=(go build)
list=(go list)
if [[ $version != "$(required k8s.io/kubernetes)" ]]; then
	mod=../$output.mod
	mkdir -p "${mod%/*}"
	kubernetes=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's|^\t"GoMod": "\(.*\)",\{0,1\}$|\1|p')
	# Kubernetes names its own modules v0.0.0: v0.35.4 belongs to v1.35.4. All other versions are those that it requires, but for
	# etcd and the command line, which are those of the current test cluster.
	{
		sed -n '/^module /p; /^go /p; /^godebug /p' go.mod
		for module in github.com/spf13/cobra go.etcd.io/etcd/server/v3; do echo "require $module $(required "$module")"; done
		echo "require k8s.io/kubernetes $version"
		sed -n "s|^\t\(k8s.io/[^ ]*\) v0[.]0[.]0\( // indirect\)\{0,1\}\$|replace \1 => \1 v0${version#v1}|p" "$kubernetes"
	} >"$mod"
	build+=(-mod=mod "-modfile=$mod")
	list+=(-mod=mod "-modfile=$mod")
fi

printf 'building the test cluster %s (etcd, Kubernetes, kubectl); the first time takes about five minutes on two cores\n' "$version" >&2
total=$("${list[@]}" -deps . | wc -l)
start=$SECONDS
# Without a terminal, one line for every 200 packages.
if [[ -t 2 ]]; then end=$'\r' every=10; else end=$'\n' every=200; fi
"${build[@]}" -v -ldflags "$flags" -o "../$output" . 2> >(
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
printf 'built %s in %d s%50s\n' "$output" "$((SECONDS - start))" '' >&2
