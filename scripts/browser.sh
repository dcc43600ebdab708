#!/usr/bin/env bash
# Prints the path of a browser for tests, or fails.
for name in "${BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable chrome headless-shell; do
	if [ "$name" ] && command -v "$name"; then exit 0; fi
done
exit 1
