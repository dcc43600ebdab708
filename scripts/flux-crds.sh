#!/usr/bin/env bash
# Prints the CRDs of Flux that helm-controller and the example addons need. They are in Flux's modules, whose checksums are compared.
set -euo pipefail
cd "$(dirname "$0")/.."

# crds prints files below config/crd/bases of a module.
crds() {
	local module=$1 sum=$2 info dir
	shift 2
	info=$(go mod download -json "$module")
	dir=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$info")
	grep -qF "\"Sum\": \"$sum\"" <<<"$info" || { echo "flux-crds: $module has another checksum than $sum" >&2; exit 1; }
	for name; do
		echo ---
		grep -v '^---$' "$dir/config/crd/bases/$name.yaml"
	done
}
crds github.com/fluxcd/helm-controller@v1.4.0 h1:rkm8rmB6Na7eNc4pJOnvtXEaJ19iKluRtayHKjBxcUM= helm.toolkit.fluxcd.io_helmreleases
crds github.com/fluxcd/source-controller@v1.7.0 h1:/fBgS4CSmT5Jj/fjQDF92y+pC3gst1GJjgNSzY8Ff9I= source.toolkit.fluxcd.io_{externalartifacts,helmcharts,helmrepositories,ocirepositories}
