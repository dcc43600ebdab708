#!/bin/sh
# It tries what the page excludes, while another hook runs, and writes a line for each attempt that succeeds.
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: intruder}]}'; exit; fi
[ ! -e "$RESULTS/done" ] || exit 0
until [ -e "$RESULTS/running" ] && [ -e "$RESULTS/console" ]; do sleep 0.1; done
exec 2>>"$RESULTS/errors"
runs=$(dirname "$(dirname "$BINDING_CONTEXT_PATH")")
{
	cat "/proc/$PPID/environ" && echo "read the environment"
	head -c 1 "/proc/$PPID/mem" && echo "read the memory"
	ls "/proc/$PPID/fd" && echo "listed the open files"
	readlink "/proc/$PPID/cwd" && echo "read the links"
	console=/proc/$(cat "$RESULTS/console")
	(exec 3>"$console/fd/0") && echo "opened the input of a console"
	cat "$console/environ" && echo "read the environment of a console"
	cat /proc/self/environ >/dev/null || echo "cannot read its own environment"
	sh -c 'cat /proc/$PPID/environ' >/dev/null || echo "is not dumpable itself"
	ls "$runs" && echo "listed the runs"
	for run in "$runs"/*/ "$runs"/hook-running-sh-*/; do
		[ -d "$run" ] && for file in "$run"/*; do
			echo '{operation: Delete, kind: Namespace, name: default}' >>"$file" && echo "wrote to $file"; done
	done
	find "$runs" -mindepth 1 -type f ! -path "$(dirname "$BINDING_CONTEXT_PATH")/*" | grep . && echo "found files of other runs"
	ls "$HOME/.." && echo "listed the homes"
	"$PROGRAM" hook pause victim.sh --debug-unix-socket "$SOCKET" && echo "paused a hook"
	sh -c '"$PROGRAM" queue pause main --debug-unix-socket "$SOCKET"' && echo "paused a queue"
	"$PROGRAM" config set log.level error --debug-unix-socket "$SOCKET" && echo "set the log level"
	"$PROGRAM" hook record victim.sh --for 1h --debug-unix-socket "$SOCKET" && echo "recorded a hook"
	"$PROGRAM" parked drop --all --debug-unix-socket "$SOCKET" && echo "dropped parked tasks"
	env -i sh -c 'exec "$0" hook trigger victim.sh --debug-unix-socket "$1"' "$PROGRAM" "$SOCKET" && echo "started a hook"
	"$PROGRAM" hook list --debug-unix-socket "$SOCKET" >/dev/null || echo "cannot read by the socket"
} >"$RESULTS/intruder"
mkdir -p "$HOME/.kube"
echo 'broken: [' >"$HOME/.kube/config"
echo 'echo changed >"$RESULTS/library"' >"$SHELL_LIB"
echo 'broken: [' >"$KUBECONFIG"
touch "$RESULTS/done"
