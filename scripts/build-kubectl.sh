#!/bin/sh
# Builds kubectl, kubectl-trimmed/kubectl, and the build id by which the operator recognizes that they belong together. The first
# argument is the directory for them, relative to the top of the repository; further ones go to go build. COMPLETE=./absent builds a program
# that fails as kubectl. Also run by the Dockerfile, in an image without bash.
set -eu
# As in a release: the plugin package, which only cgo enables, keeps the linker from leaving code out.
export CGO_ENABLED=0
out=$1
shift
cd "$(dirname "$0")/../kubectl"
case $out in /*) ;; *) out=../$out ;; esac

# v0.36.3 of the module is v1.36.3 of Kubernetes. Clients and the API server read the stamp.
version=$(go list -m -f '{{.Version}}' k8s.io/kubectl | sed 's/^v0/v1/')
minor=${version#v1.}
flags='-s -w'
for stamp in k8s.io/component-base/version k8s.io/client-go/pkg/version; do # the second one is in the user agent
	flags="$flags -X $stamp.gitVersion=$version -X $stamp.gitTreeState=clean -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
done

mkdir -p "$out/kubectl-trimmed"
# A running program cannot be overwritten, and links would be followed.
rm -f "$out/kubectl" "$out/kubectl-trimmed/kubectl" "$out/kubectl-trimmed/kubectl.buildid"
go build "$@" -ldflags "$flags" -o "$out/kubectl" "${COMPLETE:-.}"
go build "$@" -ldflags "$flags" -o "$out/kubectl-trimmed/kubectl" ./trimmed
go tool buildid "$out/kubectl" >"$out/kubectl-trimmed/kubectl.buildid"
