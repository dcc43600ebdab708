#!/usr/bin/env bash
# Prints the container engine to use: $ENGINE, or the first one of those named that is installed and answers. A client
# of Docker without its daemon, say, does not.
set -euo pipefail
for engine in ${ENGINE:-"$@"}; do
	if "$engine" version >/dev/null 2>&1; then
		echo "$engine"
		exit
	fi
done
echo "no container engine answers: install and start one of ${ENGINE:-$*}, or name another with ENGINE" >&2
exit 1
