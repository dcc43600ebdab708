#!/usr/bin/env bash
# Publishes a release from bin/dist and bin/image, as make dist and make image have built them: two images, the chart, and
# files on GitHub. Without PUBLISH=1 it checks the files and prints the commands.
#
# The GitHub release stays a draft until all of it can be read back, and only then do the tags latest move. Each step can be
# repeated, so a release that failed is started again.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${VERSION:?set VERSION to the tag, such as v1.2.3}
repository=${GITHUB_REPOSITORY:-shell-operator/shell-operator}
image=ghcr.io/$repository
dist=${DIST:-bin/dist}
layout=${LAYOUT:-bin/image}
platforms=linux/amd64,linux/arm64,linux/arm/v7
static_platforms=linux/amd64,linux/arm64

fail() { echo "release: $*" >&2; exit 1; }
publish() {
	printf '+ %s\n' "$*"
	[[ -z ${PUBLISH:-} ]] || "$@"
}

[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "$version is not a semantic version with a v"
candidate=
[[ $version != *-* ]] || candidate=--prerelease
chart=shell-operator-${version#v}.tgz

# What is delivered, and nothing else. GitHub's list of files is compared with the same names.
names() {
	for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
		printf '%s\n' "shell-operator-$platform" "shell-operator-$platform.cdx.json"
	done
	printf '%s\n' "$chart" SHA256SUMS "$@"
}
diff <(names | sort) <(cd "$dist" && printf '%s\n' * | sort) >&2 || fail "$dist has not the files of a release (<: missing, >: unexpected)"
(cd "$dist" && sha256sum --quiet --check SHA256SUMS) || fail "files in $dist have changed since SHA256SUMS was written"
covered=$(cut -c67- "$dist/SHA256SUMS" | sort)
[[ $covered == "$(names | grep -v SHA256SUMS | sort)" ]] || fail "SHA256SUMS does not cover all files"
[[ -f $layout/index.json ]] || fail "$layout is not an OCI layout: run make image"
grep -q '"org.opencontainers.image.ref.name": *"'"$version"'"' "$layout/index.json" || fail "$layout is an image of another version"

# The manifests name the image of this version.
manifests=$(mktemp -d)/shell-operator.yaml
trap 'rm -r "${manifests%/*}"' EXIT
sed "s|\(image: .*\):latest|\1:$version|" deploy/manifests/shell-operator.yaml >"$manifests"
grep -q "image: .*:$version\$" "$manifests" || fail 'deploy/manifests/shell-operator.yaml names no image :latest'

publish docker buildx build --push --sbom=true --provenance=true --platform "$platforms" --build-arg "VERSION=$version" -t "$image:$version" -f deploy/image/Dockerfile .
publish bin/tools/image push "$layout" "$image:$version-static"
# A repository of its own: a tag of the chart is not a tag of the image.
publish helm push "$dist/$chart" "oci://ghcr.io/$repository/charts"
# --verify-tag: gh would create a missing tag from the default branch.
draft=
if [[ -n ${PUBLISH:-} ]] && draft=$(gh release view "$version" --json isDraft --jq .isDraft 2>/dev/null); then
	[[ $draft == true ]] || fail "$version is published already"
fi
[[ -n $draft ]] || publish gh release create "$version" --draft ${candidate:+"$candidate"} --verify-tag --generate-notes
publish gh release upload "$version" --clobber "$dist"/* "$manifests"

# Reads everything back as users do.
has_platforms() {
	# Attestations are for the platform unknown.
	diff <(tr , '\n' <<<"$2" | sort) <(docker buildx imagetools inspect --raw "$1" | bin/tools/jq -r '.manifests[].platform |
		select(.os != "unknown") | .os + "/" + .architecture + if .architecture == "arm" then "/" + .variant else "" end' | sort) >&2 ||
		fail "$1 has not the platforms $2"
}
chart_names_image() {
	helm template release "oci://ghcr.io/$repository/charts/shell-operator" --version "${version#v}" | grep -qF "image: $image:$version" ||
		fail "the chart does not name the image $image:$version"
}
has_files() {
	diff <(names shell-operator.yaml | sort) <(gh release view "$version" --json assets --jq '.assets[].name' | sort) >&2 || fail 'the release has not all files'
}
publish has_platforms "$image:$version" "$platforms"
publish has_platforms "$image:$version-static" "$static_platforms"
publish chart_names_image
publish has_files
publish gh release edit "$version" --draft=false
if [[ -z $candidate ]]; then
	publish docker buildx imagetools create -t "$image:latest" "$image:$version"
	publish docker buildx imagetools create -t "$image:latest-static" "$image:$version-static"
fi
