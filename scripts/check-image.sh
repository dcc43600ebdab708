#!/usr/bin/env bash
# Uses an image with a shell as users do: paths, programs, an image built on it, any user on a read-only root. Needs Docker.
set -euo pipefail
image=${1:?name the image}

run() { docker run --rm --read-only --tmpfs /tmp --tmpfs /var/run/shell-operator:mode=0770 "$@"; }

for user in 0 65532:65532 12345:0; do
	run --user "$user" "$image" version
	run --user "$user" --entrypoint /bin/bash "$image" -c '
		set -euo pipefail
		[[ $PWD == / && $SHELL_OPERATOR_HOOKS_DIR == /hooks && $LOG_TYPE == json ]]
		[[ -d /hooks && -x /shell-operator && -x /sbin/tini && -x /bin/kubectl && -x /usr/bin/jq && -x /shell_lib.sh ]]
		[[ $(readlink /usr/local/bin/shell-operator) == /shell-operator ]]
		shell-operator version
		kubectl version --client
		jq --version
		curl --version
		sed --version
		source /shell_lib.sh
		[[ $(type -t hook::run) == function ]]'
done

# A start gets as far as the API server, which is not there: the hook that apk has brought a program for has been asked.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/hooks"
printf '#!/usr/bin/env bash\nsource /shell_lib.sh\n__config__() { python3 -c "print(\x27configVersion: v1\\\\nonStartup: 1\x27)"; }\nhook::run "$@"\n' >"$dir/hooks/hook.sh"
chmod 0755 "$dir/hooks/hook.sh"
printf 'FROM %s\nRUN apk add --no-cache python3\nADD hooks /hooks\n' "$image" >"$dir/Dockerfile"
docker build -t shell-operator:derived "$dir"
run --user 65532 --entrypoint /hooks/hook.sh shell-operator:derived --config | grep 'onStartup: 1'

# Programs that users copy into images with nothing else.
printf 'FROM scratch\nCOPY --from=%s /shell-operator /bin/kubectl /usr/bin/jq /\n' "$image" >"$dir/Dockerfile"
docker build -t shell-operator:copied "$dir"
run shell-operator:copied /shell-operator version
run shell-operator:copied /kubectl version --client
run shell-operator:copied /jq --version
