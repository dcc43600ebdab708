#!/usr/bin/env bash
# Publishes a release from bin/dist and bin/image, as make dist and make image have built them: three images, the chart, their
# signatures, and files on GitHub with the notes of CHANGELOG.md. Without PUBLISH=1 it checks the files and prints the commands.
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
changelog=${CHANGELOG:-CHANGELOG.md}
charts=ghcr.io/$repository/charts
vex=deploy/image/jq-1.7.1.openvex.json
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
wheel=$(scripts/build-wheel.py --name "$version")

# What is delivered, and nothing else. GitHub's list of files is compared with the same names.
names() {
	for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
		printf '%s\n' "shell-operator-$platform" "shell-operator-$platform.cdx.json"
	done
	printf '%s\n' "$chart" "$wheel" third-party-licenses.txt SHA256SUMS "$@"
}
diff <(names | sort) <(cd "$dist" && printf '%s\n' * | sort) >&2 || fail "$dist has not the files of a release (<: missing, >: unexpected)"
(cd "$dist" && sha256sum --quiet --check SHA256SUMS) || fail "files in $dist have changed since SHA256SUMS was written"
covered=$(cut -c67- "$dist/SHA256SUMS" | sort)
[[ $covered == "$(names | grep -v SHA256SUMS | sort)" ]] || fail "SHA256SUMS does not cover all files"
[[ -f $layout/index.json ]] || fail "$layout is not an OCI layout: run make image"
grep -q '"org.opencontainers.image.ref.name": *"'"$version"'"' "$layout/index.json" || fail "$layout is an image of another version"

written=$(mktemp -d)
trap 'rm -r "$written"' EXIT
# A release candidate has the notes of what is not released yet.
section=$version
[[ -z $candidate ]] || section=Unreleased
awk -v section="$section" '/^## / { inside = $2 == section; next } inside' "$changelog" >"$written/notes.md"
grep -q '[^[:space:]]' "$written/notes.md" || fail "$changelog has no section \"## $section\""
# The manifests name the image of this version.
manifests=$written/shell-operator.yaml
sed "s|\(image: .*\):latest|\1:$version|" deploy/manifests/shell-operator.yaml >"$manifests"
grep -q "image: .*:$version\$" "$manifests" || fail 'deploy/manifests/shell-operator.yaml names no image :latest'

# What another job has built is what its attestation says: the files, and the index of the static image.
builder=(--repo "$repository" --signer-workflow "$repository/.github/workflows/release.yml" --source-ref "refs/tags/$version")
for file in $covered; do publish gh attestation verify "$dist/$file" "${builder[@]}"; done
verify_static() {
	local digest
	digest=$(bin/tools/image digest "$layout")
	gh attestation verify "$layout/blobs/${digest/:/\/}" "$@"
}
publish verify_static "${builder[@]}"

build() {
	local tag=$1
	shift
	publish docker buildx build --push --sbom=true --provenance=mode=max --platform "$platforms" --build-arg "VERSION=$version" "$@" -t "$image:$tag" \
		--metadata-file "$written/$tag.json" -f deploy/image/Dockerfile .
}
push_chart() { helm push "$dist/$chart" "oci://$charts" 2>&1 | tee "$written/chart.txt"; }
build "$version"
build "$version-jq1.8" --build-arg JQ_VERSION=1.8.2
publish bin/tools/image push "$layout" "$image:$version-static"
# A repository of its own: a tag of the chart is not a tag of the image.
publish push_chart

# The digest of what has been built here, not of what a tag in the registry names at this moment: a tag can be moved.
built() {
	local digest
	case $1 in
	"$version-static") digest=$(bin/tools/image digest "$layout") ;;
	"${version#v}") digest=$(sed -n 's/^Digest: *//p' "$written/chart.txt") ;;
	*) digest=$(bin/tools/jq -r '."containerimage.digest"' "$written/$1.json") ;;
	esac
	[[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || fail "there is no digest of $1: \"$digest\""
	printf '%s' "$digest"
}
# --recursive signs the image of each platform, too.
sign() {
	local digest
	digest=$(built "$2")
	cosign sign --yes --recursive "$1@$digest"
}
attest() {
	local digest
	digest=$(built "$2")
	cosign attest --yes --type "$3" --predicate "$4" "$1@$digest"
}
publish sign "$image" "$version"
publish sign "$image" "$version-jq1.8"
publish sign "$image" "$version-static"
publish sign "$charts/shell-operator" "${version#v}"
publish attest "$image" "$version" openvex "$vex"
# The SBOMs in the images with a shell are in what is signed; those of the static image refer to it.
for arch in amd64 arm64; do publish attest "$image" "$version-static" cyclonedx "$dist/shell-operator-linux-$arch.cdx.json"; done

# --verify-tag: gh would create a missing tag from the default branch.
draft=
if [[ -n ${PUBLISH:-} ]] && draft=$(gh release view "$version" --json isDraft --jq .isDraft 2>/dev/null); then
	[[ $draft == true ]] || fail "$version is published already"
fi
[[ -n $draft ]] || publish gh release create "$version" --draft ${candidate:+"$candidate"} --verify-tag --notes-file "$written/notes.md"
publish gh release upload "$version" --clobber "$dist"/* "$manifests" "$vex"

# Reads everything back as users do.
has_platforms() {
	# Attestations are for the platform unknown.
	diff <(tr , '\n' <<<"$2" | sort) <(docker buildx imagetools inspect --raw "$1" | bin/tools/jq -r '.manifests[].platform |
		select(.os != "unknown") | .os + "/" + .architecture + if .architecture == "arm" then "/" + .variant else "" end' | sort) >&2 ||
		fail "$1 has not the platforms $2"
}
chart_names_image() {
	helm template release "oci://$charts/shell-operator" --version "${version#v}" | grep -qF "image: $image:$version" ||
		fail "the chart does not name the image $image:$version"
}
has_files() {
	diff <(names shell-operator.yaml "${vex##*/}" | sort) <(gh release view "$version" --json assets --jq '.assets[].name' | sort) >&2 || fail 'the release has not all files'
}
publish has_platforms "$image:$version" "$platforms"
publish has_platforms "$image:$version-jq1.8" "$platforms"
publish has_platforms "$image:$version-static" "$static_platforms"
publish chart_names_image
publish has_files
signer=(--certificate-identity "https://github.com/$repository/.github/workflows/release.yml@refs/tags/$version"
	--certificate-oidc-issuer https://token.actions.githubusercontent.com)
publish cosign verify "${signer[@]}" "$image:$version"
publish cosign verify "${signer[@]}" "$image:$version-jq1.8"
publish cosign verify "${signer[@]}" "$image:$version-static"
publish cosign verify "${signer[@]}" "$charts/shell-operator:${version#v}"
publish cosign verify-attestation --type openvex "${signer[@]}" "$image:$version"
publish cosign verify-attestation --type cyclonedx "${signer[@]}" "$image:$version-static"
publish gh release edit "$version" --draft=false
if [[ -z $candidate ]]; then
	publish docker buildx imagetools create -t "$image:latest" "$image:$version"
	publish docker buildx imagetools create -t "$image:latest-jq1.8" "$image:$version-jq1.8"
	publish docker buildx imagetools create -t "$image:latest-static" "$image:$version-static"
fi
