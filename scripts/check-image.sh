#!/usr/bin/env bash
# Uses an image with a shell as users do: paths, programs, an image built on it, any user on a read-only root. Needs Docker
# or Podman.
set -euo pipefail
image=${1:?name the image}
engine=$("$(dirname "$0")/engine.sh" docker podman)
if [[ $engine == *buildah ]]; then
	echo 'Buildah builds images and runs none: install Docker or Podman, or name one with ENGINE' >&2
	exit 1
fi

run() { "$engine" run --rm --read-only --tmpfs /tmp --tmpfs /var/run/shell-operator:mode=0770 "$@"; }

for user in 0 65532:65532 12345:0; do
	run --user "$user" "$image" version
	run --user "$user" --entrypoint /bin/bash "$image" -c '
		set -euo pipefail
		[[ $PWD == / && $SHELL_OPERATOR_HOOKS_DIR == /hooks && $LOG_TYPE == json ]]
		[[ -d /hooks && -x /shell-operator && -x /sbin/tini && -x /bin/kubectl && -x /usr/bin/jq && -s /usr/lib/shell-operator/kubectl-trimmed/kubectl.buildid && -x /shell_lib.sh ]]
		[[ -s /usr/share/licenses/shell-operator.txt && -s /usr/share/licenses/kubectl.txt ]]
		[[ $(readlink /usr/local/bin/shell-operator) == /shell-operator ]]
		shell-operator version
		kubectl version --client
		jq --version
		curl --version
		sed --version
		source /shell_lib.sh
		[[ $(type -t hook::run) == function ]]'
done

# An image of a user: a hook that calls what apk has brought.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/hooks"
cat >"$dir/hooks/hook.sh" <<'HOOK'
#!/usr/bin/env bash
source /shell_lib.sh
__config__() { python3 -c 'print("configVersion: v1\nonStartup: 1")'; }
__on_startup() { echo "the first binding is $(context::jq -r .binding), found by $(python3 -c 'print("python")')"; }
hook::run "$@"
HOOK
chmod 0755 "$dir/hooks/hook.sh"
cat >"$dir/hooks/library.py" <<'HOOK'
#!/usr/bin/env python3
from shell_operator_hook import Hook

hook = Hook({"configVersion": "v1", "onStartup": 2})


@hook.on_startup
def started(context):
    print("the library is there")


hook.run()
HOOK
chmod 0755 "$dir/hooks/library.py"
printf 'FROM %s\nRUN apk add --no-cache python3\nADD hooks /hooks\n' "$image" >"$dir/Dockerfile"
"$engine" build -t shell-operator:derived "$dir"
for user in 0 65532:65532 12345:0; do
	run --user "$user" shell-operator:derived lint --strict
	run --user "$user" shell-operator:derived run hook.sh | tee "$dir/said"
	grep -q 'the first binding is onStartup, found by python' "$dir/said"
	run --user "$user" shell-operator:derived run library.py | tee "$dir/said"
	grep -q 'the library is there' "$dir/said"
done
# A start gets as far as the API server, which is not there.
if run --user 65532:65532 shell-operator:derived >"$dir/said" 2>&1 || ! grep -q 'API server' "$dir/said"; then
	cat "$dir/said"
	echo 'a start without an API server did not fail with an error about it' >&2
	exit 1
fi

# Programs that users copy into images with nothing else.
printf 'FROM scratch\nCOPY --from=%s /shell-operator /bin/kubectl /usr/bin/jq /\n' "$image" >"$dir/Dockerfile"
"$engine" build -t shell-operator:copied "$dir"
run shell-operator:copied /shell-operator version
run shell-operator:copied /kubectl version --client

# Hooks find the trimmed kubectl first, so it belongs to /bin/kubectl.
cat >"$dir/hooks/hook.sh" <<'HOOK'
#!/bin/bash
if [[ ${1:-} == --config ]]; then echo '{configVersion: v1, onStartup: 1}'; else type -p kubectl && kubectl version --client; fi
HOOK
run -v "$dir/hooks:/hooks:ro" "$image" run hook.sh | tee "$dir/said"
grep -q /usr/lib/shell-operator/kubectl-trimmed/kubectl "$dir/said"
run shell-operator:copied /jq --version
