#!/usr/bin/env bash
# Writes axe-core, which finds errors of accessibility on pages, from npm to the file. It is not vendored, because its licence is the MPL.
set -euo pipefail
version=4.14.1
sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm pack --silent --pack-destination "$dir" "axe-core@$version" >/dev/null
tar xzf "$dir/axe-core-$version.tgz" -C "$dir" package/axe.min.js
echo "$sum  $dir/package/axe.min.js" | sha256sum --check --quiet
mv "$dir/package/axe.min.js" "$1"
