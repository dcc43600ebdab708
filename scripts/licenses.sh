#!/bin/sh
# Prints the licences and notices of the code that Go programs are linked from, equal texts once: licenses.sh MODULE PACKAGE…, where
# MODULE is the directory of the Go module. Fails if a module has none. Also run by the Dockerfile, in an image without bash.
set -eu
export LC_ALL=C # for sort
cd "$(dirname "$0")/../$1"
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The modules of a program depend on its system.
for system in linux darwin; do
	GOOS=$system CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{$.Dir}}|{{.Path}} {{.Version}}|{{.Dir}}{{end}}{{end}}' "$@" >>"$dir/packages"
done
# A forked package may have its own licence, in one of the directories from it to that of the module.
{
	echo "$(go env GOROOT)|The Go library $(go env GOVERSION)"
	awk -F '|' 'NF == 3 { for (at = $1; ; sub("/[^/]*$", "", at)) { print at "|" $2; if (at == $3) break } }' "$dir/packages"
} | sort -u >"$dir/places"
while IFS='|' read -r place module; do
	for file in "$place"/LICEN[CS]E* "$place"/licen[cs]e* "$place"/COPYING* "$place"/NOTICE*; do
		if [ -f "$file" ] && [ "${file%.go}" = "$file" ]; then
			text=$dir/$(sha256sum <"$file" | cut -c-64)
			cp "$file" "$text.text"
			echo "$module" >>"$text.modules"
			echo "$module" >>"$dir/found"
		fi
	done
done <"$dir/places"
for module in $(cut -d '|' -f 2 "$dir/places" | sort -u | tr ' ' '~'); do
	module=$(echo "$module" | tr '~' ' ')
	grep -qxF "$module" "$dir/found" || { echo "licenses: $module has no licence" >&2; exit 1; }
done

for modules in "$dir"/*.modules; do
	echo '================================================================================'
	sort -u "$modules"
	echo
	cat "${modules%.modules}.text"
	echo
done
